"""Runs trials of a pipeline and holds every table against the laws."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.connectors.foreach import FunctionSink
from headwater.definitions import Source, duration_ms
from headwater.errors import CrashPointUnreached, QueryFailedError, TriggerImpossible
from headwater.runtime.failures import is_of_a_busy_machine
from headwater.runtime.storage import Storage
from headwater.testing.scene import Content, Scene, Stage
from headwater.testing.values import Rows
from headwater.verification import determinism, laws, trials, unbatched
from headwater.verification.laws import TableLaw
from headwater.verification.problems import Problem
from headwater.verification.recording import Recorder, Recording, save
from headwater.verification.trials import CRASH_AFTER, CRASH_BEFORE, RESTART, Step, Trial

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.pipeline import Pipeline

Tell = Callable[[str], None]
_FAR = dt.timedelta(days=400)
"""Longer than any window of the examples' kind."""
_ATTEMPTS = 3
"""So often a trial is run where a busy machine ends it: that is no law of the query."""


class Verifier:
    """One pipeline and one input; `tell` hears what goes on."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        *,
        late_budget: int = 0,
        crashes: bool = False,
        tell: Tell = lambda line: None,
    ) -> None:
        self.pipeline = pipeline
        self.spark = spark
        self.late_budget = late_budget
        self.crashes = crashes
        self.tell = tell
        self.recording: Recording = {}
        self.sources: Mapping[str, Source] = pipeline.definitions().sources
        self.notes: dict[str, str] = {}
        self._stored: dict[str, Content] = {}
        self.kept_tables = self._function_tables()
        with self._scene(Trial(())) as scene:
            self.laws = {
                name: laws.law_of(scene.graph, scene.plan, name) for name in scene.graph.tables
            }
            self._graph = scene.graph
            self._suspects = self._suspected(scene)
            self._python = {name: _python_functions(scene, name) for name in self.laws}
        self._note_what_is_left_out()

    # The input

    def record(
        self,
        *,
        rows: Mapping[str, Rows] | None = None,
        limit: int = 10_000,
        into: Path | None = None,
    ) -> None:
        with self._scene(Trial(())) as scene:
            self.recording = Recorder(scene, rows or {}, limit).record(self.sources)
            if into is not None:
                save(self.recording, scene, into)

    def schemas(self) -> dict[str, str]:
        """The columns of each source's rows."""
        with self._scene(Trial(())) as scene:
            return {name: scene.tape(name).schema.toDDL() for name in self.sources}

    def closing(self, trial: Trial) -> dict[str, dt.datetime]:
        """The event times that close every window of a trial's rows, by source."""
        with self._scene(Trial(())) as scene:
            for step in trial.steps:
                self._add(scene, step.rows)
            moments = [moment for tape in scene.tapes.values() if (moment := tape.newest())]
        return {
            name: max(moments) + dt.timedelta(milliseconds=duration_ms(source.delay)) + _FAR
            for name, source in self.sources.items()
            if moments and source.delay
        }

    # What is checked

    def determinism(self) -> list[Problem]:
        """Columns that come from random functions or the clock, and those that differ when the
        same batch runs twice."""
        if self._suspects:
            return list(self._suspects)
        with self._scene(trials.one_batch(self.recording)) as scene:
            self._add(scene, self.recording)
            first, second = scene.batch(), scene.batch()
        found = (determinism.differing(name, first[name], second[name]) for name in self.laws)
        return [problem for problem in found if problem]

    def without_batches(self, has_time: Callable[[], bool]) -> list[Problem]:
        """What is wrong under the continuous and the real-time trigger, for the tables that can
        have them; compared when all rows have come."""
        found: list[Problem] = []
        for name, law in self.laws.items():
            reads_tables = bool(laws.tables_behind(self._graph, name))
            if law.is_stateful or law.is_function or reads_tables:
                continue
            for trigger in unbatched.TRIGGERS:
                if not has_time():
                    return found
                with self._scene(Trial(())) as scene, contextlib.suppress(TriggerImpossible):
                    self._add(scene, self.recording)
                    batch = scene.batch()[name]
                    problem = unbatched.problem_of(scene, name, trigger, batch)
                    if problem is not None:
                        found.append(dataclasses.replace(problem, python=self._python[name]))
                    self.tell(f"{name} under the trigger {trigger}: {_verdict(problem)}")
        return found

    def trial(self, seed: int, *, is_recorded: bool) -> Trial:
        return trials.make(
            self.recording,
            self.sources,
            seed,
            crashes=self.crashes,
            is_recorded=is_recorded,
        )

    def problem_of(self, trial: Trial) -> Problem | None:
        """The first law that a trial breaks."""
        for _ in range(_ATTEMPTS - 1):
            found = self._attempt(trial)
            if found is None or not is_of_a_busy_machine(found.law):
                return found
        return self._attempt(trial)

    def _attempt(self, trial: Trial) -> Problem | None:
        try:
            self._store_baseline(trial)
            with self._scene(trial) as scene:
                return self._problem(scene, trial)
        except TriggerImpossible:
            return self._attempt(dataclasses.replace(trial, trigger=None))
        except QueryFailedError as failure:
            law = f"the query does not fail ({failure.found or failure.what})"
            return Problem(failure.table, law, trial=trial)

    def _problem(self, scene: Scene, trial: Trial) -> Problem | None:
        for number, step in enumerate(trial.steps):
            self._perform(scene, step)
            so_far = dataclasses.replace(trial, steps=trial.steps[: number + 1])
            is_last = number + 1 == len(trial.steps)
            if (step.is_checked or is_last) and (found := self._of_prefix(scene, so_far)):
                return found
        if late := self._late(scene, trial):
            return late
        self._close(scene)
        return self._of_end(scene, trial)

    def _perform(self, scene: Scene, step: Step) -> None:
        self._add(scene, step.rows)
        if step.event in (CRASH_BEFORE, CRASH_AFTER):
            self._crash(scene, step.event)
        elif step.event == RESTART:
            scene.process()
            scene.stop()
        scene.process()

    def _crash(self, scene: Scene, event: str) -> None:
        tables = [name for name in self.laws if event == CRASH_AFTER or name in scene.kept]
        # Where no table has anything to do, there is nothing to crash in.
        with contextlib.suppress(CrashPointUnreached):
            if event == CRASH_BEFORE:
                scene.crash_before_sink(tables)
            else:
                scene.crash_after_sink(tables)

    def _of_prefix(self, scene: Scene, trial: Trial) -> Problem | None:
        if all(law.is_function or law.follows_state for law in self.laws.values()):
            return None
        batch = scene.batch()
        for name, law in self.laws.items():
            if law.is_function or self._has_late(scene, name):
                continue
            stream = scene.content(name)
            found = laws.of_prefix(law, stream, batch[name], scene.watermark_ms(name))
            if found:
                told = self._told(law, found, batch[name], trial)
                return dataclasses.replace(told, is_end=False)
        return None

    def _of_end(self, scene: Scene, trial: Trial) -> Problem | None:
        batch = scene.batch()
        for name, law in self.laws.items():
            if self._has_late(scene, name) or (law.is_function and name not in self.kept_tables):
                continue
            if law.has_timers and scene.late_count(name).late:
                continue
            stream = scene.content(name)
            expected = self._stored[name] if name in self._stored else batch[name]
            if found := laws.of_end(law, stream, expected):
                return self._told(law, found, expected, trial)
        return None

    def _told(self, law: TableLaw, found: laws.Difference, batch: Content, trial: Trial) -> Problem:
        return Problem(
            table=law.name,
            law=found.law,
            columns=tuple(batch.schema.names),
            missing=found.missing,
            extra=found.extra,
            trial=trial,
            expected=batch.rows,
            is_exact=found.is_exact,
            python=self._python[law.name],
        )

    def _late(self, scene: Scene, trial: Trial) -> Problem | None:
        """Rows that the watermark lost although they came in the recorded order."""
        if not trial.is_recorded_order:
            return None
        for name in self.laws:
            if (late := scene.late_count(name).late) > self.late_budget:
                law = (
                    f"at most {self.late_budget} rows are late in the recorded order "
                    f"({late} were); a longer watermark, or --late-budget {late}"
                )
                return Problem(name, law, trial=trial)
        return None

    def _has_late(self, scene: Scene, table: str) -> bool:
        """Whether a table behind it had late rows, or its own were dropped: then the batch holds
        more than the stream was given."""
        behind = [n for n in laws.tables_behind(scene.graph, table) if scene.late_count(n).late]
        policy = scene.spec(table).late
        if policy is not None and not policy.keeps_rows and scene.late_count(table).late:
            behind.append(table)
        if behind:
            self.notes[table] = (
                f"late rows of {behind[0]}, so not compared with the batch in every run"
            )
        return bool(behind)

    # Inside

    @contextlib.contextmanager
    def _scene(self, trial: Trial) -> Any:
        stage = Stage(
            keep=self.kept_tables,
            trigger=trial.trigger,
            partitions=trial.partitions,
            drives_all=True,
            models_of=Storage(self.pipeline.settings.storage_root, self.pipeline.name),
        )
        scene = Scene(self.pipeline, self.spark, stage)
        try:
            if trial.steps:
                self._clear()
            yield scene
        finally:
            scene.close()
            if trial.steps:
                self._clear()

    def _clear(self) -> None:
        for table in self.kept_tables:
            self._sink(table).clear()

    def _add(self, scene: Scene, rows: Recording) -> None:
        for name, part in rows.items():
            if part:
                scene.tape(name).add(part)

    def _close(self, scene: Scene) -> None:
        """Moves event time beyond every window that the rows can have opened."""
        moments = [moment for tape in scene.tapes.values() if (moment := tape.newest())]
        if not moments:
            return
        delays = {
            name: dt.timedelta(milliseconds=duration_ms(source.delay))
            for name, source in self.sources.items()
            if source.delay
        }
        scene.move_event_times({n: max(moments) + delay + _FAR for n, delay in delays.items()})

    def _store_baseline(self, trial: Trial) -> None:
        """What functions store, and timers write, when all rows come in one batch."""
        timed = [name for name, law in self.laws.items() if law.has_timers]
        tables = list(dict.fromkeys([*self.kept_tables, *timed]))
        if not tables:
            return
        rows: dict[str, list[Any]] = {name: [] for name in self.recording}
        for step in trial.steps:
            for name, part in step.rows.items():
                rows[name] += part
        with self._scene(trials.one_batch(rows)) as scene:
            self._add(scene, rows)
            scene.process()
            self._close(scene)
            self._stored = {name: scene.content(name) for name in tables}

    def _function_tables(self) -> list[str]:
        """Tables whose function can be read back and cleared."""
        tables = self.pipeline.definitions().tables.values()
        return [
            t.name for t in tables if isinstance(t.into, FunctionSink) and t.into.can_be_verified
        ]

    def _sink(self, table: str) -> Any:
        return self.pipeline.definitions().tables[table].into

    def _suspected(self, scene: Scene) -> list[Problem]:
        found = []
        for name in self.laws:
            decisions = scene.plan.tables[name].decisions
            assert decisions is not None
            found += determinism.suspects(name, decisions.frame)
        return found

    def _note_what_is_left_out(self) -> None:
        tables = self.pipeline.definitions().tables
        for name, law in self.laws.items():
            sink = tables[name].into
            if isinstance(sink, FunctionSink) and name not in self.kept_tables:
                self.notes[name] = (
                    f"{sink.describe()} is not called, the rows it would get are compared; "
                    "with read= and clear= what it stores is"
                )
            elif not law.is_comparable:
                self.notes[name] = (
                    "its content depends on the moment: a table read as a lookup, or timers by the "
                    "clock or behind a table"
                )


def _verdict(problem: Problem | None) -> str:
    return "holds" if problem is None else "BROKEN"


def _python_functions(scene: Scene, table: str) -> tuple[str, ...]:
    decisions = scene.plan.tables[table].decisions
    return () if decisions is None else decisions.facts.python


def within(seconds: float) -> Callable[[], bool]:
    """Whether there is still time."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end
