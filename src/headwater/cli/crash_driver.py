"""The driver that `verify --crash` starts and kills: a redirected pipeline, run to its end.

python -m headwater.cli.crash_driver FOLDER TAG run|finish
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from headwater.cli.app import Application, load_app
from headwater.cli.sessions import session_for
from headwater.connectors.foreach import FunctionSink
from headwater.events import Event, silent
from headwater.verification.redirection import Contents, redirected

_CUT_S = 30.0


def main(folder: Path, tag: str, what: str) -> None:
    about: dict[str, Any] = json.loads((folder / "crash.json").read_text())
    application = load_app(about["app"], flags=about["flags"])
    pipeline = redirected(application.pipeline, application.settings, about["inputs"], folder, tag)
    if not (folder / tag / "storage").exists():
        for table in pipeline.definitions().tables.values():
            if isinstance(table.into, FunctionSink) and table.into.clear is not None:
                table.into.clear()
    copy = Application(application.name, pipeline, pipeline.settings)
    with session_for(copy, report=silent) as spark:
        contents = Contents(spark, pipeline)
        _cut_when_told(contents)
        run = pipeline.start(trigger="available now", report=_tell)
        try:
            run.await_termination()
        finally:
            run.stop()
        run.raise_failure()
        if what == "finish":
            found = {table: dict(rows) for table, rows in contents.read().items()}
            (folder / tag / "contents.json").write_text(json.dumps(found))
            contents.drop()


def _tell(event: Event) -> None:
    print(type(event).__name__, getattr(event, "table", ""), flush=True)


def _cut_when_told(contents: Contents) -> None:
    """In a thread of its own: a call to the JVM must not interrupt another one."""
    asked = threading.Event()
    signal.signal(signal.SIGUSR1, lambda number, frame: asked.set())

    def work() -> None:
        while True:
            asked.wait()
            asked.clear()
            # A connection is there only while rows are written.
            end, cut = time.monotonic() + _CUT_S, 0
            while not cut and time.monotonic() < end:
                cut = contents.cut_connections()
            print(f"cut {cut} connections", flush=True)

    threading.Thread(target=work, name="headwater-cutter", daemon=True).start()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
