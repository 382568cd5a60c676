"""The driver that `verify --crash` starts and kills: a redirected pipeline, run to its end.

python -m headwater.cli.crash_driver FOLDER TAG run|finish TABLE...
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headwater.cli.app import Application, load_app
from headwater.cli.sessions import session_for
from headwater.connectors.foreach import FunctionSink
from headwater.events import Event, silent
from headwater.verification.redirection import Contents, redirected


def main(folder: Path, tag: str, what: str, tables: Sequence[str]) -> None:
    about: dict[str, Any] = json.loads((folder / "crash.json").read_text())
    application = load_app(about["app"], flags=about["flags"])
    pipeline = redirected(
        application.pipeline, application.settings, about["inputs"], folder, tag, tables
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


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:])
