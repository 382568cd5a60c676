import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headwater.errors import AddressTaken
from headwater.events import (
    AdviceGiven,
    BatchCompleted,
    GapsFound,
    LateCount,
    PipelineStarted,
    QueryFailed,
    QueryRestarting,
    QueryStarted,
    RejectedCaptured,
)
from headwater.observe import metrics as families_of
from headwater.observe.dashboard import dashboard
from headwater.observe.metrics import CONTENT_TYPE, Family, Metrics, Sample
from headwater.observe.serving import LocalServer, metrics_handler

SHARED = ("pipeline", "table")


def batch(number: int, **facts: object) -> BatchCompleted:
    given: dict[str, object] = {
        "watermark": "2026-01-01T11:50:00.000Z",
        "state_rows": 7,
        "late": LateCount(10, late=2),
        "rejected": {"signals": 1},
        "kafka_lags": {"signals:0": 5, "signals:1": 0},
        "durations_ms": {"triggerExecution": 400, "addBatch": 300},
        "latency_rows": {1400: 4, 1600: 6},
        **facts,
    }
    at = "2026-01-01T12:00:00.000Z"
    return BatchCompleted("raw", number, at, 10, 5.0, 20.0, 400, **given)  # type: ignore[arg-type]


def values(metrics: Metrics) -> dict[tuple[str, str], float]:
    """Every sample by name and by its labels other than pipeline and table, as a real parser
    of Prometheus' format reads it."""
    return {
        (
            s.name,
            ",".join(v for k, v in s.labels.items() if k not in ("pipeline", "table")),
        ): s.value
        for family in text_string_to_metric_families(metrics.text())
        for s in family.samples
    }


def test_counters_begin_at_zero_and_add_up() -> None:
    metrics = Metrics("iot")
    metrics.report(PipelineStarted("iot", ("raw",)))
    assert values(metrics)["headwater_batches_total", ""] == 0
    for number in range(3):
        metrics.report(batch(number))
    found = values(metrics)
    assert found["headwater_batches_total", ""] == 3
    assert found["headwater_input_rows_total", ""] == 30
    assert found["headwater_late_rows_total", ""] == 6
    assert found["headwater_rejected_records_total", "signals"] == 3
    assert found["headwater_batch_phase_seconds_total", "addBatch"] == pytest.approx(0.9)


def test_gauges_hold_the_last_value_in_base_units() -> None:
    metrics = Metrics("iot")
    metrics.report(batch(4))
    found = values(metrics)
    assert found["headwater_watermark_lag_seconds", ""] == pytest.approx(600.4)
    assert found["headwater_kafka_lag_records", "0,signals"] == 5
    assert found["headwater_last_batch", ""] == 4
    assert found["headwater_state_rows", ""] == 7


def test_histograms_are_cumulative_and_weighted_by_rows() -> None:
    metrics = Metrics("iot")
    metrics.report(batch(0))
    metrics.report(batch(1, latency_rows={90_000: 10}))
    found = values(metrics)
    assert found["headwater_batch_duration_seconds_count", ""] == 2
    assert found["headwater_batch_duration_seconds_bucket", "0.25"] == 0
    assert found["headwater_batch_duration_seconds_bucket", "0.5"] == 2
    assert found["headwater_latency_seconds_bucket", "2.5"] == 10
    assert found["headwater_latency_seconds_bucket", "+Inf"] == 20
    assert found["headwater_latency_seconds_sum", ""] == pytest.approx(5.6 + 9.6 + 900)


def test_a_query_that_fails_or_restarts_is_not_running() -> None:
    metrics = Metrics("iot")
    metrics.report(QueryStarted("raw", "id", "run", None))
    assert values(metrics)["headwater_query_running", ""] == 1
    metrics.report(QueryRestarting("raw", 3, "broken", "attempt 1 of 5", 1.0))
    metrics.report(QueryFailed("raw", 3, "broken"))
    found = values(metrics)
    assert found["headwater_query_running", ""] == 0
    assert found["headwater_query_failures_total", ""] == 1
    assert found["headwater_query_restarts_total", ""] == 1


def test_gaps_and_advice_are_counted() -> None:
    metrics = Metrics("demo")
    metrics.report(GapsFound("signals", "raw", ("signals/0: 1 to 5", "signals/1: 1 to 9")))
    metrics.report(AdviceGiven("state_grows", "raw", "it grows", "less", "watermark"))
    text = metrics.text()
    assert 'headwater_gaps_total{pipeline="demo",source="signals",table="raw"} 2' in text
    assert 'headwater_advice_total{pipeline="demo",rule="state_grows",table="raw"} 1' in text


def test_labels_are_escaped() -> None:
    metrics = Metrics('a"b\\c\nd')
    metrics.report(RejectedCaptured('s"1', "raw", 3, 4))
    [family] = text_string_to_metric_families(metrics.text())
    assert family.samples[0].labels == {"pipeline": 'a"b\\c\nd', "table": "raw", "source": 's"1'}


def test_what_no_event_tells_is_asked_at_each_scrape() -> None:
    metrics = Metrics("iot")
    asked = iter((1.0, 2.0))
    family = Family("spark_streaming_state_rows", "gauge", "rows")
    metrics.more = lambda: [Sample(family, {"table": "raw"}, next(asked))]
    assert [values(metrics)["spark_streaming_state_rows", ""] for _ in range(2)] == [1.0, 2.0]


@pytest.fixture
def server() -> Iterator[LocalServer]:
    metrics = Metrics("iot")
    metrics.report(batch(0))
    found = LocalServer(metrics_handler(metrics.text, CONTENT_TYPE), what="metrics")
    found.start()
    yield found
    found.close()


def test_a_scrape_gets_the_text_with_its_content_type(server: LocalServer) -> None:
    with urllib.request.urlopen(f"{server.address}/metrics", timeout=5) as answer:
        assert answer.headers["Content-Type"] == CONTENT_TYPE
        assert b'headwater_batches_total{pipeline="iot",table="raw"} 1\n' in answer.read()


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/", {}, 404),
        ("/metrics", {"Host": "evil.example"}, 403),
        ("/metrics", {"Origin": "http://evil.example"}, 403),
    ],
)
def test_what_does_not_belong_here_is_refused(
    server: LocalServer, path: str, headers: dict[str, str], status: int
) -> None:
    request = urllib.request.Request(f"{server.address}{path}", headers=headers)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=5)
    assert refused.value.code == status
    refused.value.close()


def test_a_port_that_is_taken_is_told(server: LocalServer) -> None:
    with pytest.raises(AddressTaken) as problem:
        LocalServer(lambda request: None, port=server.port, what="metrics")  # type: ignore[arg-type,return-value]
    assert str(server.port) in str(problem.value)


def test_the_dashboard_in_the_docs_is_the_one_of_these_metrics() -> None:
    kept = Path(__file__).parents[3] / "docs" / "assets" / "grafana-dashboard.json"
    assert kept.read_text() == dashboard() + "\n"
    queries = [t["expr"] for p in json.loads(kept.read_text())["panels"] for t in p["targets"]]
    named = {name for query in queries for name in re.findall(r"headwater_\w+", query)}
    families = {f.name for f in vars(families_of).values() if isinstance(f, Family)}
    assert {name.removesuffix("_bucket") for name in named} <= families
