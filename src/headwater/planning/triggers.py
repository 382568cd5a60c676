"""Which triggers a table can run under, and why not the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.connectors.interface import Connector
from headwater.definitions import OutputMode, Trigger, TriggerKind, duration_ms
from headwater.errors import FunctionFailed
from headwater.planning.analysis import (
    QueryFacts,
    continuous_problem,
    mode_problem,
    real_time_problems,
)
from headwater.planning.inputs import StreamInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MEANINGS = {
    TriggerKind.DEFAULT: "a batch as soon as the one before has ended",
    TriggerKind.PROCESSING_TIME: "a batch per interval",
    TriggerKind.ONCE: "one batch of everything new, whatever max_per_batch says; then it ends",
    TriggerKind.AVAILABLE_NOW: "everything new in batches of max_per_batch; then it ends",
    TriggerKind.CONTINUOUS: "rows pass at once, progress is logged per interval",
    TriggerKind.REAL_TIME: "rows pass at once in one long batch, logged at its end",
}

_MIN_BATCH = "spark.sql.streaming.realTimeMode.minBatchDuration"


@dataclass(frozen=True, slots=True)
class TriggerVerdict:
    """Whether a table can run under a kind of trigger: no problem means that it can."""

    kind: TriggerKind
    problems: tuple[str, ...] = ()
    note: str | None = None

    @property
    def is_possible(self) -> bool:
        return not self.problems


@dataclass(frozen=True, slots=True)
class TriggerQuestion:
    """Everything that the verdicts depend on.

    `build` gives the query's DataFrame for a trigger: some connectors read otherwise under the
    continuous one. `partitions` counts the input partitions, None where nobody can say.
    """

    frame: DataFrame
    facts: QueryFacts
    inputs: Sequence[StreamInput]
    sink: Connector
    mode: OutputMode
    modes_of_sink: frozenset[OutputMode]
    is_mode_asked: bool
    cores: int
    build: Callable[[Trigger], DataFrame]
    partitions: Callable[[], int | None]


def verdicts(question: TriggerQuestion) -> dict[TriggerKind, TriggerVerdict]:
    """One verdict per kind of trigger; builds the query anew for two of them."""
    return {kind: verdict(question, kind) for kind in TriggerKind}


def verdict(question: TriggerQuestion, kind: TriggerKind) -> TriggerVerdict:
    if kind is TriggerKind.CONTINUOUS:
        return _continuous(question)
    if kind is TriggerKind.REAL_TIME:
        return _real_time(question)
    return TriggerVerdict(kind, tuple(_connector_problems(question, kind)))


def interval_problem(trigger: Trigger, frame: DataFrame) -> str | None:
    """Spark refuses real-time batches below a minimum, 5 seconds unless the session says less."""
    if trigger.kind is not TriggerKind.REAL_TIME or trigger.interval is None:
        return None
    least_ms = _minimum_ms(frame)
    if duration_ms(trigger.interval) >= least_ms:
        return None
    return f"a real-time batch lasts at least {least_ms} ms ({_MIN_BATCH}), not {trigger.interval}"


def async_progress_problem(trigger: Trigger, sink: Connector, facts: QueryFacts) -> str | None:
    """Why Spark cannot track progress asynchronously; None where it can."""
    if trigger.kind not in (TriggerKind.DEFAULT, TriggerKind.PROCESSING_TIME):
        return f"Spark refuses it under the trigger {trigger.kind.value}"
    if not sink.takes_async_progress:
        return f"Spark cannot do it into {sink.describe()}, but into Kafka"
    if facts.stateful:
        return f"Spark refuses it for a query with state ({', '.join(facts.kinds)})"
    return None


def _connector_problems(question: TriggerQuestion, kind: TriggerKind) -> list[str]:
    problems = [
        f"{one.name} ({one.connector.describe()}) cannot be read under {kind.value}"
        for one in question.inputs
        if kind not in one.connector.read_triggers
    ]
    if kind not in question.sink.write_triggers:
        problems.append(f"{question.sink.describe()} cannot be written under {kind.value}")
    return problems


def _continuous(question: TriggerQuestion) -> TriggerVerdict:
    kind = TriggerKind.CONTINUOUS
    problems = _connector_problems(question, kind)
    if question.facts.stateful:
        problems.append(f"state ({', '.join(question.facts.kinds)}): rows never meet in a batch")
    if question.mode is OutputMode.COMPLETE:
        problems.append("complete mode needs batches")
    if problems:
        return TriggerVerdict(kind, tuple(problems))
    frame = _built(question, Trigger(kind, "1 second"))
    if isinstance(frame, str):
        return TriggerVerdict(kind, (frame,))
    if problem := continuous_problem(frame, question.mode):
        remedy = "; leave watermark= out of its source" if "EventTimeWatermark" in problem else ""
        return TriggerVerdict(kind, (problem + remedy,))
    return _with_cores(question, kind)


def _real_time(question: TriggerQuestion) -> TriggerVerdict:
    kind = TriggerKind.REAL_TIME
    problems = _connector_problems(question, kind)
    if question.facts.stateful:
        problems.append(f"state ({', '.join(question.facts.kinds)})")
    if question.facts.python:
        problems.append(f"Python functions ({', '.join(question.facts.python)})")
    problems += _update_problems(question)
    if problems:
        return TriggerVerdict(kind, tuple(problems))
    frame = _built(question, Trigger(kind, "5 seconds"))
    if isinstance(frame, str):
        return TriggerVerdict(kind, (frame,))
    if operators := real_time_problems(frame):
        return TriggerVerdict(kind, tuple(f"not allowed in it: {found}" for found in operators))
    return _with_cores(question, kind)


def _update_problems(question: TriggerQuestion) -> list[str]:
    """Real time writes in update mode, whatever the query."""
    if question.is_mode_asked and question.mode is not OutputMode.UPDATE:
        return [f"{question.mode.value} mode: real time writes in update mode only"]
    if OutputMode.UPDATE not in question.modes_of_sink:
        return [f"{question.sink.describe()} has no update mode, which real time needs"]
    problem = mode_problem(question.frame, OutputMode.UPDATE)
    return [f"it needs update mode: {problem}"] if problem else []


def _with_cores(question: TriggerQuestion, kind: TriggerKind) -> TriggerVerdict:
    """Each partition of the input holds a core for as long as the query runs."""
    partitions = question.partitions()
    if partitions is None:
        note = "needs a core per input partition; how many there are is unknown, cores: "
        return TriggerVerdict(kind, note=note + str(question.cores))
    if partitions > question.cores:
        problem = f"{partitions} input partitions need as many cores, and there are "
        return TriggerVerdict(kind, (problem + str(question.cores),))
    return TriggerVerdict(kind, note=f"holds {partitions} of {question.cores} cores")


def _built(question: TriggerQuestion, trigger: Trigger) -> DataFrame | str:
    try:
        return question.build(trigger)
    except FunctionFailed as problem:
        return problem.found or problem.what


def _minimum_ms(frame: DataFrame) -> int:
    from pyspark.errors import PySparkException

    try:
        text = frame.sparkSession.conf.get(_MIN_BATCH) or ""
    except PySparkException:
        text = ""
    digits = text.removesuffix("ms")
    return int(digits) if digits.isdigit() else 5000
