import io

from headwater.events import BatchCompleted, LateCount, QueryFailed, QueryStarted, QueryStopped
from headwater.observe.lines import LinePrinter, batch_line, event_line


def batch(number: int, **figures: object) -> BatchCompleted:
    return BatchCompleted("raw", number, "2026-01-01T00:00:00Z", 10, 5.0, 20.0, 500, **figures)  # type: ignore[arg-type]


def printed(*events: object, every_s: float) -> list[str]:
    out = io.StringIO()
    printer = LinePrinter(out, every_s=every_s)
    for event in events:
        printer.report(event)  # type: ignore[arg-type]
    printer.close()
    return out.getvalue().splitlines()


def test_every_batch_is_a_line() -> None:
    lines = printed(batch(0), batch(1), every_s=0)
    assert [line.split(",")[0] for line in lines] == ["raw: batch 0", "raw: batch 1"]


def test_fast_batches_share_a_line_and_none_is_lost() -> None:
    lines = printed(*(batch(number) for number in range(5)), every_s=3600)
    assert [",".join(line.split(",")[:2]) for line in lines] == [
        "raw: batch 0, 10 rows",
        "raw: batches 1 to 4, 40 rows",
    ]


def test_an_end_comes_after_the_batches_before_it() -> None:
    lines = printed(batch(0), batch(1), QueryStopped("raw", 1), every_s=3600)
    assert lines[-1] == "raw: stopped after batch 1"
    assert lines[-2].startswith("raw: batch 1")


def test_late_rows_are_named_as_sparks_own_metric() -> None:
    line = batch_line([batch(0, late=LateCount(10, late=3), rejected={"signals": 2}, kafka_lag=7)])
    assert line.endswith("Kafka lag 7, late 3, rejected 2")


def test_the_epoch_is_no_watermark() -> None:
    assert "watermark" not in batch_line([batch(0, watermark="1970-01-01T00:00:00.000Z")])
    assert "watermark 12:03:04" in batch_line([batch(0, watermark="2026-01-01T12:03:04.000Z")])


def test_a_start_says_whether_it_resumes() -> None:
    assert event_line(QueryStarted("raw", "q", "r", None)) == "raw: started, new"
    assert event_line(QueryStarted("raw", "q", "r", 4)) == "raw: resumed after batch 4"


def test_a_failure_and_a_forced_stop_are_told() -> None:
    assert event_line(QueryFailed("raw", None, "why")) == "raw: failed after no batch"
    forced = event_line(QueryStopped("raw", 3, was_forced=True))
    assert forced == "raw: stopped by force in the batch after 3"
