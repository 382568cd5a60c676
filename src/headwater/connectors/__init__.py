"""The systems that a pipeline reads and writes, one module each."""

from headwater.connectors.console import console
from headwater.connectors.custom import custom
from headwater.connectors.delta import delta
from headwater.connectors.files import csv, json, orc, parquet, text
from headwater.connectors.foreach import foreach, foreach_batch
from headwater.connectors.jdbc import jdbc, mariadb, postgres
from headwater.connectors.kafka import kafka
from headwater.connectors.memory import memory, queue
from headwater.connectors.rate import rate
from headwater.connectors.redis import redis
from headwater.connectors.socket import socket

__all__ = [
    "console",
    "csv",
    "custom",
    "delta",
    "foreach",
    "foreach_batch",
    "jdbc",
    "json",
    "kafka",
    "mariadb",
    "memory",
    "orc",
    "parquet",
    "postgres",
    "queue",
    "rate",
    "redis",
    "socket",
    "text",
]
