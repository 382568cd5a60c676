"""What `run` serves beside the pipeline: metrics, the console, Spark Connect."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from headwater.events import Event

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.cli.app import Application
    from headwater.observe.json_lines import JsonLines
    from headwater.observe.metrics import Metrics
    from headwater.planning import Plan
    from headwater.runtime.connect import ConnectViews


class Observers:
    """Begins to answer before Spark starts, so that a port that is taken is told at once."""

    def __init__(self) -> None:
        self.metrics: Metrics | None = None

        self.log: JsonLines | None = None
        self._views: ConnectViews | None = None

    def report(self, event: Event) -> None:
        if self.metrics is not None:
            self.metrics.report(event)
        if self.log is not None:
            self.log.report(event)
        if self._views is not None:
            self._views.report(event)

    def watch(self, spark: SparkSession, plan: Plan, endpoint: str | None) -> None:
        """Called with the session before the queries start."""
        from headwater.observe.dropwizard import ENABLED, spark_samples
        from headwater.observe.versions import model_samples
        from headwater.runtime.connect import ConnectViews

        if self.metrics is not None:
            spark.conf.set(ENABLED, "true")
            of_spark = spark_samples(spark, [spec.name for spec in plan.queries])
            of_models = model_samples(spark, plan.graph.definitions, plan.settings)
            self.metrics.more = lambda: chain(of_spark(), of_models())
        if endpoint is not None:
            self._views = ConnectViews(spark, plan.graph, plan.settings)
            self._views.start()
            print(f"Spark Connect: {endpoint}", flush=True)


def attachable(application: Application, port: int | None) -> tuple[Application, str | None]:
    """The application with a session that serves Spark Connect, and the address for clients."""
    if port is None:
        return application, None
    import secrets

    from headwater.errors import AddressTaken
    from headwater.local import ports
    from headwater.runtime.connect import connect_address, connect_settings

    if port and not ports.is_free(port):
        raise AddressTaken("Spark Connect endpoint", port, ports.holder(port))
    chosen, token = port or ports.free_port(), secrets.token_urlsafe(24)
    given = application.settings.spark
    serving = connect_settings(chosen, token, plugins=given.get("spark.plugins"))
    settings = replace(application.settings, spark={**given, **serving})
    application.pipeline.use_settings(settings)
    return replace(application, settings=settings), connect_address(chosen, token)


@contextmanager
def observers(args: argparse.Namespace, application: Application) -> Iterator[Observers]:
    from headwater.cli.run import tell_where

    with ExitStack() as stack:
        found = Observers()
        if args.json:
            from headwater.observe.json_lines import JsonLines

            found.log = JsonLines(sys.stdout)
            stack.callback(found.log.close)
            # What is told to people goes where people look; the lines stand alone.
            stack.enter_context(redirect_stdout(sys.stderr))
        tell_where(application, "as a stream")
        if args.metrics is not None:
            from headwater.observe.metrics import CONTENT_TYPE, Metrics
            from headwater.observe.serving import LocalServer, metrics_handler

            metrics = found.metrics = Metrics(application.pipeline.name)
            handle = metrics_handler(metrics.text, CONTENT_TYPE)
            server = LocalServer(handle, port=args.metrics, what="metrics")
            server.start()
            stack.callback(server.close)
            print(f"metrics: {server.address}/metrics", flush=True)
        if args.console is not None:
            from headwater.observe.console.server import ConsoleProcess

            console = ConsoleProcess(
                [application.settings.local_folder], port=args.console, is_read_only=False
            )
            stack.callback(console.close)
            print(f"console: {console.address}", flush=True)
        yield found
