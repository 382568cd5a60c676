"""Classes of the JVM by name, and objects of it that are made once. `jvm.org.apache…` asks the JVM
once per dot; these ask nothing."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
LOGICAL = "org.apache.spark.sql.catalyst.plans.logical."
TYPES = "org.apache.spark.sql.types."
_kept: WeakKeyDictionary[SparkContext, dict[Hashable, Any]] = WeakKeyDictionary()
_Kept = TypeVar("_Kept")


def kept(spark: SparkSession, key: Hashable, make: Callable[[], _Kept]) -> _Kept:
    """What is made once per application of Spark: some objects take a hundred calls of the JVM."""
    mine = _kept.setdefault(spark.sparkContext, {})
    # Of two threads that make it at once, both take the one that is kept.
    found: _Kept = mine[key] if key in mine else mine.setdefault(key, make())
    return found


def java_class(spark: SparkSession, name: str) -> Any:
    """A class: called it makes an object, its static methods are attributes."""
    from py4j.java_gateway import JavaClass

    gateway: Any = spark.sparkContext._gateway
    return JavaClass(name, gateway._gateway_client)


def module(spark: SparkSession, name: str) -> Any:
    """A Scala object."""
    return kept(spark, name, lambda: getattr(java_class(spark, f"{name}$"), "MODULE$"))


def sequence(spark: SparkSession, elements: list[Any]) -> Any:
    """A Scala sequence of JVM objects."""
    listed = java_class(spark, "java.util.ArrayList")()
    for element in elements:
        listed.add(element)
    convert = java_class(spark, "scala.jdk.javaapi.CollectionConverters")
    return convert.asScala(listed).toSeq()
