"""Kafka topics, read and written."""

from headwater.connectors.kafka.clients import create_topic, end_offsets, partition_count
from headwater.connectors.kafka.connector import ORIGIN, Kafka, kafka

__all__ = ["ORIGIN", "Kafka", "create_topic", "end_offsets", "kafka", "partition_count"]
