"""What `run` serves beside the pipeline: metrics, the console."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.events import Report, silent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from headwater.observe.metrics import Metrics


class Observers:
    """Begins to answer before Spark starts, so that a port that is taken is told at once."""

    def __init__(self) -> None:
        self.metrics: Metrics | None = None

    @property
    def report(self) -> Report:
        return self.metrics.report if self.metrics else silent

    def watch(self, spark: SparkSession, tables: Sequence[str]) -> None:
        """Called with the session before the queries start."""
        from headwater.observe.dropwizard import ENABLED, spark_samples

        if self.metrics is not None:
            spark.conf.set(ENABLED, "true")
            self.metrics.more = spark_samples(spark, tables)


@contextmanager
def observers(args: argparse.Namespace, pipeline: str, local_folder: Path) -> Iterator[Observers]:
    with ExitStack() as stack:
        found = Observers()
        if args.metrics is not None:
            from headwater.observe.metrics import CONTENT_TYPE, Metrics
            from headwater.observe.serving import LocalServer, metrics_handler

            metrics = found.metrics = Metrics(pipeline)
            handle = metrics_handler(metrics.text, CONTENT_TYPE)
            server = LocalServer(handle, port=args.metrics, what="metrics")
            server.start()
            stack.callback(server.close)
            print(f"metrics: {server.address}/metrics", flush=True)
        if args.console is not None:
            from headwater.observe.console.server import ConsoleProcess

            console = ConsoleProcess([local_folder], port=args.console, is_read_only=False)
            stack.callback(console.close)
            print(f"console: {console.address}", flush=True)
        yield found
