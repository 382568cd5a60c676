"""Models that a pipeline trains, compares and publishes while it runs."""

from headwater.learning.training import Trainer, Training, trainer_of
from headwater.learning.transforming import transformed
from headwater.runtime.models import loaded

__all__ = ["Trainer", "Training", "loaded", "trainer_of", "transformed"]
