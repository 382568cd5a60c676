"""The main job in small: a fleet of devices, a pipeline over its signals, a proof of the counts."""
