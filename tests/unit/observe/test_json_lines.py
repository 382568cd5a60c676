import io
import json
import os

from headwater.events import BatchCompleted, QueryStarted
from headwater.observe.json_lines import JsonLines

BATCH = BatchCompleted("hot", 3, "2026-01-01T12:00:00.000Z", 10, 1.0, 2.0, 100)


def test_every_event_is_a_line_with_its_facts() -> None:
    out = io.StringIO()
    log = JsonLines(out)
    log.report(QueryStarted("hot", "id", "run", None))
    log.report(BATCH)
    log.close()
    started, batch = map(json.loads, out.getvalue().splitlines())
    assert (started["kind"], started["facts"]["table"]) == ("QueryStarted", "hot")
    assert (batch["kind"], batch["facts"]["batch"]) == ("BatchCompleted", 3)
    assert batch["at"] > batch["facts"]["at"]


def test_a_reader_that_goes_away_holds_nothing_up() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w", buffering=1) as out:
        log = JsonLines(out)
        for _ in range(100):
            log.report(BATCH)
        log.close()
        assert not log._thread.is_alive()
        # What could not be written is not to be tried again when the file is closed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), write)
