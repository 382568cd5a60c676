"""Advice from what a pipeline told: cases are made from its history, rules look at one case."""
