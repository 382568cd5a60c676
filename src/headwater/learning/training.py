"""One training after the other: learn, evaluate on rows that were held back, publish or refuse."""

from __future__ import annotations

import datetime as dt
import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headwater.definitions import Model, duration_ms
from headwater.events import ModelPublished, ModelRefused, ModelTrained, Report, silent
from headwater.runtime.failures import first_line
from headwater.runtime.frames import users_line
from headwater.runtime.models import NONE, ColumnsDoNotFit, ModelStore, Version
from headwater.runtime.queries import RunningQueries
from headwater.runtime.session import Share, scheduled_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PARTS = 1000
_TIMES = ("timestamp", "timestamp_ntz", "date")
_ENDS_S = 10.0
"""How long a stop waits for a training that Spark cannot interrupt."""
_LOOKS_S = 5.0
"""How soon a table that holds no rows yet is looked at again."""


class _Refused(Exception):
    """Why a training brings no version."""


class Trainer:
    """Trains one model on what `rows` gives at that moment; whatever goes wrong, the version that
    is used stays and the report says why."""

    def __init__(
        self,
        store: ModelStore,
        rows: Callable[[], DataFrame],
        report: Report,
        *,
        is_called_off: Callable[[], bool] = lambda: False,
    ) -> None:
        self.store = store
        self._model = store.model
        self._rows = rows
        self._report = report
        self._is_called_off = is_called_off

    def has_rows(self) -> bool:
        """Whether there is anything to learn from."""
        return not self._rows().isEmpty()

    def train(self) -> Version | None:
        """Learns, evaluates, and publishes where better; None where it was called off."""
        running, began = self.store.running(), time.monotonic()
        now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        trained = Version(self.store.next_version(), now, 0.0, self._model.columns)
        try:
            learn, held_back = self._split(self._recent(self._rows()))
            rows = self._learnt(trained.version, learn)
            trained = replace(trained, rows=rows)
            trained = self._judged(trained, running, held_back)
        except Exception as problem:
            if self._is_called_off():
                return None
            trained = replace(trained, problem=self._reason(problem))
        trained = replace(trained, seconds=round(time.monotonic() - began, 3))
        self.store.record(trained)
        self._tell(trained, running)
        return trained

    def _recent(self, rows: DataFrame) -> DataFrame:
        """What the model looks at; files that are older are not read."""
        from pyspark.sql import functions as F

        history = self._model.history
        if history is None:
            return rows
        if history.column not in rows.columns:
            has = ", ".join(rows.columns)
            raise _Refused(f"its history is of {history.column}; its table has {has}")
        if rows.schema[history.column].dataType.typeName() not in _TIMES:
            raise _Refused(f"its history is of {history.column}, which is no time")
        column = F.col(history.column)
        newest = rows.agg(F.unix_millis(F.max(column).cast("timestamp"))).first()
        if newest is None or newest[0] is None:
            return rows
        return rows.where(column > F.timestamp_millis(F.lit(newest[0] - history.ms)))

    def _split(self, rows: DataFrame) -> tuple[DataFrame, DataFrame]:
        """Rows to learn from and rows to judge by. The same row always falls on the same side, so
        no version is judged by what an earlier one has learnt from."""
        from pyspark.sql import functions as F

        # Where something was learnt before, there is something to learn from.
        if not self.store.versions() and rows.isEmpty():
            raise _Refused(f"table {self._model.trained_on} holds no rows yet")
        if self._model.evaluate is None:
            return rows, rows.limit(0)
        # Spark hashes no maps.
        columns = [f"`{f.name}`" for f in rows.schema.fields if f.dataType.typeName() != "map"]
        part = F.pmod(F.xxhash64(*columns), F.lit(_PARTS))
        is_held_back = part < int(self._model.held_back * _PARTS)
        return rows.where(~is_held_back), rows.where(is_held_back)

    def _learnt(self, version: int, rows: DataFrame) -> int:
        found = self._model.body.function(rows)
        is_frame = hasattr(found, "isStreaming")
        if found is None:
            raise _Refused("it returned nothing")
        if self._model.schema is not None and not is_frame:
            raise _Refused(f"it returned a {type(found).__name__}; its schema says a DataFrame")
        if self._model.schema is None and is_frame:
            raise _Refused("it returned a DataFrame; say its columns with schema=")
        written = self.store.write(version, found)
        if written == 0:
            raise _Refused("it returned no rows")
        return written

    def _judged(self, trained: Version, running: int, held_back: DataFrame) -> Version:
        evaluate = self._model.evaluate
        if evaluate is None:
            return trained
        held_back = held_back.persist()
        try:
            if held_back.isEmpty():
                raise _Refused("too few rows to hold some back for the evaluation")
            return self._compared(trained, running, evaluate, held_back)
        finally:
            held_back.unpersist()

    def _compared(
        self,
        trained: Version,
        running: int,
        evaluate: Callable[[Any, DataFrame], float],
        held_back: DataFrame,
    ) -> Version:
        score = float(evaluate(self.store.content(trained.version), held_back))
        if not math.isfinite(score):
            raise _Refused(f"its score is {score}, which is no number to compare")
        trained = replace(trained, score=score)
        if running == NONE:
            return trained
        before = float(evaluate(self.store.content(running), held_back))
        trained = replace(trained, compared_with=running)
        if not math.isfinite(before):
            return trained
        trained = replace(trained, score_of_compared=before)
        if score > before:
            return trained
        return replace(
            trained, problem=f"its score {score:.4g} is not above {before:.4g} of the one in use"
        )

    def _reason(self, problem: Exception) -> str:
        if isinstance(problem, _Refused | ColumnsDoNotFit):
            return str(problem)
        where = users_line(problem, self._model.location)
        return f"{type(problem).__name__} at {where}: {first_line(problem)}"

    def _tell(self, trained: Version, running: int) -> None:
        name, version = self._model.name, trained.version
        if trained.rows is not None:
            seconds, score = trained.seconds, trained.score
            self._report(ModelTrained(name, version, trained.rows, seconds, score))
        if trained.problem is not None:
            self._report(ModelRefused(name, version, running, trained.problem))
            return
        is_used = self.store.publish(version)
        before = trained.score_of_compared
        self._report(
            ModelPublished(name, version, running, trained.score, before, is_waiting=not is_used)
        )


def trainer_of(
    run: RunningQueries,
    model: str,
    report: Report,
    *,
    is_called_off: Callable[[], bool] = lambda: False,
) -> Trainer:
    """Trains a model of a running pipeline."""
    store = run.model(model)
    return Trainer(
        store,
        lambda: run.stored(store.model.trained_on),
        report,
        is_called_off=is_called_off,
    )


class Training:
    """Trains every model on its schedule, each in a thread of its own beside the queries.

    A training is due `every` so often after the one before, also of an earlier run; the first as
    soon as there are rows.
    """

    def __init__(self, models: Iterable[Model]) -> None:
        self._models = [model for model in models if model.every]
        self._report: Report = silent
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self._run: RunningQueries | None = None

    def start(self, run: RunningQueries, report: Report) -> None:
        self._run, self._report = run, report
        for model in self._models:
            trainer = trainer_of(run, model.name, report, is_called_off=self._ended.is_set)
            thread = threading.Thread(
                target=self._work, args=(run, trainer), name="headwater-training", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """Calls off what is under way; what was published stays."""
        self._ended.set()
        if self._run is not None and self._threads:
            self._run.spark.sparkContext.cancelJobsWithTag(_tag(self._run))
        for thread in self._threads:
            thread.join(_ENDS_S)

    def _work(self, run: RunningQueries, trainer: Trainer) -> None:
        # A tag of the session, once there is one, keeps Spark ML from fitting a stage after trees.
        run.spark.sparkContext.addJobTag(_tag(run))
        with scheduled_in(run.spark, Share.BESIDE):
            self._train_when_due(trainer)

    def _train_when_due(self, trainer: Trainer) -> None:
        every_s = duration_ms(trainer.store.model.every or "") / 1000
        wait_s = _due_in_s(trainer.store, every_s)
        while not self._ended.wait(wait_s):
            wait_s = every_s if self._train(trainer) else min(every_s, _LOOKS_S)

    def _train(self, trainer: Trainer) -> bool:
        """Whether there was anything to learn from."""
        try:
            if not trainer.store.versions() and not trainer.has_rows():
                return False
            trainer.train()
        except Exception as problem:
            # The storage itself did not answer: the next turn may find it again.
            if not self._ended.is_set():
                name = trainer.store.model.name
                self._report(ModelRefused(name, NONE, NONE, first_line(problem)))
        return True


def _tag(run: RunningQueries) -> str:
    return f"headwater-training-{run.name}"


def _due_in_s(store: ModelStore, every_s: float) -> float:
    versions = store.versions()
    if not versions:
        return 0.0
    passed = dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(versions[-1].trained_at)
    return max(0.0, every_s - passed.total_seconds())
