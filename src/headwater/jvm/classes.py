"""Classes of the JVM by name. `jvm.org.apache…` asks the JVM once per dot; these ask nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
LOGICAL = "org.apache.spark.sql.catalyst.plans.logical."
TYPES = "org.apache.spark.sql.types."
_modules: dict[tuple[int, str], Any] = {}


def java_class(spark: SparkSession, name: str) -> Any:
    """A class: called it makes an object, its static methods are attributes."""
    from py4j.java_gateway import JavaClass

    gateway: Any = spark.sparkContext._gateway
    return JavaClass(name, gateway._gateway_client)


def module(spark: SparkSession, name: str) -> Any:
    """A Scala object; remembered, because it lives as long as its JVM."""
    key = (id(spark.sparkContext._gateway), name)
    if key not in _modules:
        _modules[key] = getattr(java_class(spark, f"{name}$"), "MODULE$")
    return _modules[key]


def sequence(spark: SparkSession, elements: list[Any]) -> Any:
    """A Scala sequence of JVM objects."""
    listed = java_class(spark, "java.util.ArrayList")()
    for element in elements:
        listed.add(element)
    convert = java_class(spark, "scala.jdk.javaapi.CollectionConverters")
    return convert.asScala(listed).toSeq()
