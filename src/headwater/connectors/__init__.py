"""The systems that a pipeline reads and writes, one module each."""

from headwater.connectors.console import console
from headwater.connectors.delta import delta
from headwater.connectors.files import csv, json, orc, parquet, text
from headwater.connectors.memory import memory, queue
from headwater.connectors.rate import rate

__all__ = [
    "console",
    "csv",
    "delta",
    "json",
    "memory",
    "orc",
    "parquet",
    "queue",
    "rate",
    "text",
]
