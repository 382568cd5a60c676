"""Continuous applications on Apache Spark: one definition, as batch and as stream."""

from headwater.definitions import Trigger
from headwater.pipeline import Pipeline

__version__ = "0.1.0"

__all__ = ["Pipeline", "Trigger", "__version__"]
