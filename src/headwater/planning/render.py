"""The plan as text."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator

from headwater.definitions import OutputMode, TriggerKind
from headwater.errors import UnknownTable
from headwater.graph import render as graph_render
from headwater.planning.analysis import physical_plan
from headwater.planning.inputs import Address
from headwater.planning.lateness import late_words
from headwater.planning.plan import Decisions, Plan, TablePlan
from headwater.planning.triggers import MEANINGS
from headwater.runtime.session import spark_settings
from headwater.settings import CHECKPOINT_FILES, Settings, is_secret_of_spark

_WIDTH = 100
_LABEL = 12


def as_text(plan: Plan) -> str:
    """The graph, then a block per table: what `headwater plan` prints."""
    blocks = [graph_render.as_text(plan.graph)]
    if "://" in plan.settings.storage:
        blocks.append(storage_text(plan.settings))
    blocks += ["\n".join(_table_lines(table)) for table in plan.tables.values()]
    return "\n\n".join(blocks)


def settings_text(plan: Plan) -> str:
    """Every Spark setting of the session with its value and its reason.

    An active session keeps settings of its own: where its value differs, that one is shown.
    """
    lines = []
    for setting in spark_settings(plan.settings):
        found = plan.spark.sparkContext.getConf().get(setting.key, setting.value)
        reason = setting.reason if found == setting.value else "set by the session that was active"
        shown = "(not shown)" if is_secret_of_spark(setting.key) else found
        lines.append(f"{setting.key} = {shown}\n    {reason}")
    lines += [f"{what}\n    {why}" for what, why in _beside(plan)]
    return "\n".join(lines)


def _beside(plan: Plan) -> Iterator[tuple[str, str]]:
    """What is chosen for speed or safety and is no setting of the session."""
    yield (
        f"PYSPARK_PYTHON = {os.environ.get('PYSPARK_PYTHON', sys.executable)}",
        "workers run the driver's Python; the variable, or worker_python on a cluster, changes it",
    )
    for source in plan.graph.definitions.sources.values():
        for option, (value, why) in source.connector.chosen_options().items():
            yield f"{option} = {value}  (source {source.name})", f"{why}; options= wins"
        if source.schema is not None and source.connector.needs_schema:
            yield (
                f"each record is parsed once  (source {source.name})",
                "a filter behind from_json parses kept rows twice; without a schema, the raw value "
                "is yours to parse",
            )
    for name, table in plan.tables.items():
        query = table.query
        for option, (value, why) in query.sink.chosen_write_options(query.trigger.kind).items():
            yield f"{option} = {value}  (table {name})", f"{why}; options= wins"


def explain_text(plan: Plan, table: str) -> str:
    """Spark's own logical and physical plan of a table's query, and what in it is incremental."""
    if table not in plan.tables:
        raise UnknownTable(table, plan.tables)
    decisions = plan.tables[table].decisions
    assert decisions is not None
    explained = physical_plan(decisions.frame, style="extended")
    return f"table {table}\n{_incremental(decisions)}\n\n{explained}"


def storage_text(settings: Settings) -> str:
    """How a storage that is no local folder keeps checkpoints whole."""
    words = "renames a file in one step, which is how Spark writes checkpoints"
    if not settings.renames_at_once:
        named = settings.spark[CHECKPOINT_FILES]
        words = f"may copy where it should rename: {named} writes the checkpoints instead"
    return f"storage {settings.storage}\n  {words}"


def _table_lines(table: TablePlan) -> Iterator[str]:
    query, decisions = table.query, table.decisions
    yield f"table {query.name}  ({query.table.location})"
    sink = "managed Delta table (no sink was named)" if query.is_managed else query.sink.describe()
    yield from _field("sink", sink)
    if decisions is None:
        return
    yield from _field("mode", f"{query.mode.value}: {decisions.mode.reason}")
    yield from _field("", _other_modes(decisions))
    yield from _field("trigger", f"{query.trigger} ({decisions.trigger_reason})")
    for line in _trigger_lines(decisions):
        yield from _field("", line)
    held = query.guarantee.value.replace("_", "-")
    yield from _field("guarantee", f"{held}: {'; '.join(decisions.guarantee.reasons)}")
    if decisions.guarantee.condition:
        yield from _field("", f"as long as {decisions.guarantee.condition}")
    yield from _field("state", _state(decisions))
    yield from _field("late rows", late_words(decisions.late))
    yield from _field("checkpoint", f"{decisions.checkpoint}: {decisions.checkpoint.path}")
    for number, address in enumerate(decisions.addresses):
        yield from _field("connections" if number == 0 else "", _address(address))
    for number, note in enumerate(decisions.notes):
        yield from _field("notes" if number == 0 else "", note)


def _field(label: str, text: str) -> Iterator[str]:
    if not text:
        return
    # Paths and addresses are copied: they stay whole.
    yield from textwrap.wrap(
        text,
        width=_WIDTH,
        initial_indent=f"  {label:<{_LABEL}}",
        subsequent_indent=" " * (_LABEL + 4),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _other_modes(decisions: Decisions) -> str:
    chosen, problems = decisions.mode.mode, decisions.mode.problems
    others = [mode for mode in OutputMode if mode is not chosen]
    return "; ".join(f"{mode.value}: {problems[mode] or 'possible'}" for mode in others)


def _trigger_lines(decisions: Decisions) -> Iterator[str]:
    found = decisions.triggers
    possible = [kind.value for kind, verdict in found.items() if verdict.is_possible]
    yield f"possible: {', '.join(possible)}"
    for verdict in found.values():
        if verdict.problems:
            yield f"not {verdict.kind.value}: {'; '.join(verdict.problems)}"
        elif verdict.note:
            yield f"{verdict.kind.value}: {verdict.note}"
    both = (TriggerKind.ONCE, TriggerKind.AVAILABLE_NOW)
    if all(found[kind].is_possible for kind in both):
        yield "; ".join(f"{kind.value}: {MEANINGS[kind]}" for kind in both)


def _state(decisions: Decisions) -> str:
    kinds = decisions.facts.kinds
    return f"stateful: {', '.join(kinds)}" if kinds else "stateless"


def _address(address: Address) -> str:
    if address.problem:
        return f"{address.what}: {address.system}: {address.problem}"
    where = f" at {address.address}" if address.address else ""
    return f"{address.what}: {address.system}{where} (from {address.origin})"


def _incremental(decisions: Decisions) -> str:
    kinds = decisions.facts.kinds
    if not kinds:
        return "incremental: every batch reads the new rows only and keeps no state"
    return (
        f"incremental: every batch reads the new rows only; the state of {', '.join(kinds)} "
        "carries what earlier batches found (StateStore and Streaming operators below)"
    )
