"""Continuous applications on Apache Spark: one definition, as batch and as stream."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.definitions import Late, Trigger
    from headwater.pipeline import Pipeline

__version__ = "0.1.0"

__all__ = ["Late", "Pipeline", "Trigger", "__version__"]

_HOMES = {
    "Late": "headwater.definitions",
    "Pipeline": "headwater.pipeline",
    "Trigger": "headwater.definitions",
}


def __getattr__(name: str) -> Any:
    # The command line answers --help without the 0.2 s that these modules take to import.
    if name not in _HOMES:
        raise AttributeError(f"module 'headwater' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
