"""The plan of a pipeline: every open choice made and explained, before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.connectors import delta
from headwater.connectors.interface import Connector, jars_of
from headwater.definitions import Definitions, Guarantee, OutputMode, Table, Trigger
from headwater.errors import HeadwaterError, UnknownTable
from headwater.events import Report, silent
from headwater.graph import Graph, laws, resolve
from headwater.runtime.frames import Frames
from headwater.runtime.session import open_session
from headwater.runtime.specification import QuerySpec
from headwater.runtime.storage import Storage
from headwater.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class TablePlan:
    """What was decided for one table."""

    query: QuerySpec


@dataclass(frozen=True, slots=True)
class Plan:
    spark: SparkSession
    graph: Graph
    settings: Settings
    tables: dict[str, TablePlan]

    @property
    def queries(self) -> list[QuerySpec]:
        return [table.query for table in self.tables.values()]

    def require_startable(self) -> None:
        """Raises the first problem that a start would meet."""


def make_plan(
    definitions: Definitions,
    settings: Settings,
    *,
    tables: Sequence[str] | None = None,
    trigger: Trigger | None = None,
    report: Report = silent,
    for_batch: bool = False,
) -> Plan:
    graph = resolve(definitions)
    laws.check(graph, settings)
    names = list(graph.tables) if tables is None else list(tables)
    sinks = {t.name: t.into or delta() for t in graph.tables.values()}
    connectors = [*sinks.values(), *(d.connector for d in definitions.by_name.values() if hasattr(d, "connector"))]
    spark = open_session(settings, jars_of(connectors), report=report)
    plans = {}
    for name, table in graph.tables.items():
        mode = table.mode or OutputMode.APPEND
        plans[name] = TablePlan(QuerySpec(table, sinks[name], mode, trigger or table.trigger, Guarantee.EXACTLY_ONCE))
    return Plan(spark, graph, settings, plans)
