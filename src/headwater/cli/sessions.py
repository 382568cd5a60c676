"""The Spark session of a command: opened for an application, ended with the command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headwater.cli.app import Application
from headwater.connectors import delta
from headwater.connectors.interface import Connector, jars_of
from headwater.definitions import Lookup, Source
from headwater.errors import PipelineOwned
from headwater.events import Report
from headwater.graph import laws, resolve
from headwater.runtime.ownership import find_runs, run_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def session_for(
    application: Application, *, report: Report, is_verbose: bool = False
) -> Iterator[SparkSession]:
    """A session with the jars that the application needs; no JVM is left behind.

    What can be found wrong without Spark is raised before it starts.
    """
    from headwater.runtime.session import open_session

    graph = resolve(application.pipeline.definitions())
    laws.check(graph, application.settings)
    jars = jars_of(_connectors(application))
    spark = open_session(application.settings, jars, report=report, is_verbose=is_verbose)
    try:
        yield spark
    finally:
        spark.stop()


def refuse_second_run(application: Application) -> None:
    """Raises at once what a start would find only after Spark is up."""
    name = application.pipeline.name
    for run in find_runs(application.settings.local_folder):
        if run.is_alive and run.record.pipeline == name:
            folder = str(run_folder(application.settings.local_folder, name))
            raise PipelineOwned(name, run.record.pid, folder)


def _connectors(application: Application) -> list[Connector]:
    definitions = application.pipeline.definitions()
    sinks = [table.into or delta() for table in definitions.tables.values()]
    inputs = [d for d in definitions.by_name.values() if isinstance(d, Source | Lookup)]
    if definitions.models:
        sinks.append(delta())
    return [*sinks, *(definition.connector for definition in inputs)]
