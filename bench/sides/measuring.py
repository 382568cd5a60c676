"""What every side measures of itself."""

import json
import resource
from typing import Any

from pyspark.sql import SparkSession


def driver_memory_mb(spark: SparkSession) -> float:
    """Memory that the driver needs: peak of the Python process, live heap of the JVM."""
    jvm: Any = spark._jvm
    for _ in range(3):
        jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    heap = runtime.totalMemory() - runtime.freeMemory()
    python = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return (heap + python) / 1024**2


def tell(**values: float) -> None:
    print(json.dumps(values))
