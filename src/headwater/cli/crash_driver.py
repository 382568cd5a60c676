"""The driver that `verify --crash` starts and kills: a redirected pipeline, run to its end.

python -m headwater.cli.crash_driver FOLDER TAG run|finish TABLE...
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.cli.app import Application, load_app
from headwater.cli.sessions import session_for
from headwater.connectors.foreach import FunctionSink
from headwater.events import Event, silent
from headwater.verification.crash_matrix import at_work
from headwater.verification.redirection import Contents, redirected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.runtime.running import RunningPipeline

_LOOK_S = 0.01


def main(folder: Path, tag: str, what: str, tables: Sequence[str]) -> None:
    about: dict[str, Any] = json.loads((folder / "crash.json").read_text())
    application = load_app(about["app"], flags=about["flags"])
    pipeline = redirected(
        application.pipeline,
        application.settings,
        about["inputs"],
        folder,
        tag,
        tables,
        is_whole=what == "finish",
    )
    if not (folder / tag / "storage").exists():
        for table in pipeline.definitions().tables.values():
            if isinstance(table.into, FunctionSink) and table.into.clear is not None:
                table.into.clear()
    copy = Application(application.name, pipeline, pipeline.settings)
    with session_for(copy, report=silent) as spark:
        contents = Contents(spark, pipeline)
        print("application", spark.sparkContext.applicationId, flush=True)
        run = pipeline.start(trigger="available now", report=_tell)
        try:
            with _telling_who_is_at_work(run, spark, at_work(folder / tag)):
                run.await_termination()
        finally:
            run.stop()
        run.raise_failure()
        if what == "finish":
            found = {table: dict(rows) for table, rows in contents.read().items()}
            (folder / tag / "contents.json").write_text(json.dumps(found))
            contents.drop()


@contextlib.contextmanager
def _telling_who_is_at_work(
    run: RunningPipeline, spark: SparkSession, folder: Path
) -> Iterator[None]:
    """A file in `folder` for every table while a job of its batch runs, for who crashes it."""
    folder.mkdir(exist_ok=True)
    jobs, is_over = spark.sparkContext.statusTracker(), threading.Event()

    known: dict[int, str | None] = {}

    def table_of(job: int) -> str | None:
        for table, query in run.queries.items():
            if job in jobs.getJobIdsForGroup(str(query.streaming_query.runId)):
                return table
        return None

    def look() -> None:
        told: set[str] = set()
        # Every question goes to the JVM and takes time from it: a job is asked after once.
        while not is_over.wait(_LOOK_S):
            active = set(jobs.getActiveJobsIds())
            known.update({job: table_of(job) for job in active - known.keys()})
            busy = {table for job in active if (table := known[job]) is not None}
            for table in busy - told:
                (folder / table).touch()
            for table in told - busy:
                (folder / table).unlink(missing_ok=True)
            told = busy

    looking = threading.Thread(target=look, name="headwater-at-work", daemon=True)
    looking.start()
    try:
        yield
    finally:
        is_over.set()
        looking.join()


def _tell(event: Event) -> None:
    print(type(event).__name__, getattr(event, "table", ""), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:])
