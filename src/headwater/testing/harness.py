"""Runs a pipeline through a script of actions, and tells where and why it went another way."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from headwater.definitions import OutputMode, Trigger
from headwater.errors import CheckFailed, HeadwaterError, SeveralChecksFailed
from headwater.runtime.progress import batch_completed
from headwater.runtime.query import Query
from headwater.testing.actions import Action, Memory, uses_raw
from headwater.testing.scene import TESTABLE, Scene, Stage
from headwater.testing.values import Rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.pipeline import Pipeline


class Harness:
    """A pipeline under test.

    >>> Harness(app).run(            # doctest: +SKIP
    ...     add("words", [("a",), ("b",), ("a",)]),
    ...     process(),
    ...     check("counts", [("a", 2), ("b", 1)]),
    ... )

    Sources are replaced by the rows of the script, sinks by ones that can be looked into; `lookups`
    replaces lookups by rows, `models` gives models the rows of a first version, `keep` names tables
    whose own sink stays (so do tables that others read). `modes` and `trigger` replace what the
    tables ask for, `schemas` says the columns of a source whose own system would have to be asked,
    `partitions` how many a shuffle has.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        spark: SparkSession | None = None,
        lookups: Mapping[str, Rows] | None = None,
        models: Mapping[str, Rows] | None = None,
        keep: Collection[str] = (),
        modes: Mapping[str, str] | None = None,
        trigger: str | Trigger | None = None,
        schemas: Mapping[str, str] | None = None,
        partitions: int = 1,
    ) -> None:
        self._pipeline = pipeline
        self._spark = spark
        self._stage = Stage(
            lookups=lookups or {},
            models=models or {},
            keep=keep,
            modes=modes or {},
            trigger=trigger,
            schemas=schemas or {},
            partitions=partitions,
        )

    def run(self, *actions: Action) -> None:
        """Performs the actions in order; raises at the first that fails."""
        stage = dataclasses.replace(self._stage, rejects=uses_raw(actions))
        scene = Scene(self._pipeline, self._spark or session(self._pipeline), stage)
        memory = Memory()
        try:
            for number, action in enumerate(actions):
                with _told(actions, number, scene):
                    action.perform(scene, memory)
        finally:
            scene.close()

    def run_in_every_mode(self, table: str, *actions: Action) -> list[str]:
        """Runs the script once per output mode in which the table can be written; which."""
        return self._run_each(
            actions,
            {
                mode.value: {"modes": {**self._stage.modes, table: mode.value}}
                for mode in OutputMode
            },
        )

    def run_with_every_trigger(self, *actions: Action) -> list[str]:
        """Runs the script under every trigger that the tables can have and a test can drive."""
        triggers = {
            "default": "default",
            "processing time": "10 seconds",
            "once": "once",
            "available now": "available now",
        }
        assert len(triggers) == len(TESTABLE)
        return self._run_each(actions, {name: {"trigger": text} for name, text in triggers.items()})

    def _run_each(
        self, actions: Sequence[Action], variants: Mapping[str, Mapping[str, Any]]
    ) -> list[str]:
        from headwater.errors import ModeImpossible, TriggerImpossible

        done = []
        for name, changes in variants.items():
            variant = Harness(self._pipeline, spark=self._spark)
            variant._stage = dataclasses.replace(self._stage, **changes)
            try:
                variant.run(*actions)
            except (ModeImpossible, TriggerImpossible):
                continue
            except HeadwaterError as failure:
                failure.add_note(f"with {name}")
                raise
            done.append(name)
        if not done:
            raise CheckFailed(f"none of {', '.join(variants)} is possible, so nothing was run")
        return done


def run_all(scripts: Mapping[str, Callable[[], None]], *, threads: int = 3) -> None:
    """Runs many tests at once in one session; raises when all have ended, naming those that failed.

    >>> run_all({                                                       # doctest: +SKIP
    ...     "late": lambda: Harness(app).run(add(…), process(), check(…)),
    ...     "early": lambda: Harness(app).run(add(…), process(), check(…)),
    ... })
    """
    with ThreadPoolExecutor(threads) as pool:
        running = {name: pool.submit(script) for name, script in scripts.items()}
    failures = {name: r.exception() for name, r in running.items() if r.exception()}
    if failures:
        texts = {name: str(failure) for name, failure in failures.items()}
        raise SeveralChecksFailed(texts) from next(iter(failures.values()))


def session(pipeline: Pipeline) -> SparkSession:
    """The active session, else a small one with Headwater's settings and every connector."""
    from pyspark.sql import SparkSession

    from headwater.local.jars import JarSet
    from headwater.runtime.session import open_session

    running = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    if running is not None and running.sparkContext._jsc is not None:
        return running
    settings = pipeline.settings
    if settings.driver_memory is None:
        settings = dataclasses.replace(settings, driver_memory="1g")
    return open_session(settings, [JarSet.DELTA, JarSet.KAFKA, JarSet.POSTGRES])


class _told:  # noqa: N801 - reads as a word in a `with` statement
    """Adds the script, with a cursor, and the state of the queries to what an action raises."""

    def __init__(self, actions: Sequence[Action], number: int, scene: Scene) -> None:
        self._actions = actions
        self._number = number
        self._scene = scene

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, problem: BaseException | None, trace: Any) -> None:
        if isinstance(problem, CheckFailed):
            problem.script = self._script()
            problem.state = self._state()
        elif isinstance(problem, HeadwaterError):
            problem.add_note(self._script())

    def _script(self) -> str:
        lines = []
        for number, action in enumerate(self._actions):
            cursor = ">" if number == self._number else " "
            lines.append(f"{cursor} {number + 1:>2}  {action}")
        return "\n".join(lines)

    def _state(self) -> str:
        run = self._scene.run
        if run is None:
            return "the queries do not run"
        return "\n".join(_state_of(query) for query in run.queries.values())


def _state_of(query: Query) -> str:
    progress = query.progress
    if progress is None:
        return f"{query.name}: no batch yet"
    event = batch_completed(query.name, progress)
    facts = [f"batch {query.last_batch}", f"{event.input_rows} rows in"]
    if event.watermark:
        facts.append(f"watermark {event.watermark}")
    if event.state_rows is not None:
        facts.append(f"state {event.state_rows} rows")
    return f"{query.name}: {', '.join(facts)}"
