from typing import Any

from headwater.runtime.progress import batch_completed

PROGRESS: dict[str, Any] = {
    "batchId": 4,
    "timestamp": "2026-01-01T12:00:10.000Z",
    "numInputRows": 30,
    "durationMs": {"triggerExecution": 1500, "addBatch": 1000},
    "eventTime": {
        "avg": "2026-01-01T12:00:05.000Z",
        "max": "2026-01-01T12:00:09.000Z",
        "min": "2026-01-01T11:59:00.000Z",
        "watermark": "2026-01-01T11:50:00.000Z",
    },
    "stateOperators": [
        {
            "numRowsTotal": 7,
            "memoryUsedBytes": 1000,
            "commitTimeMs": 200,
            "numShufflePartitions": 2,
        },
        {"numRowsTotal": 3, "memoryUsedBytes": 500, "commitTimeMs": 80, "numShufflePartitions": 4},
    ],
    "sources": [
        {
            "description": "KafkaV2[Subscribe[signals]]",
            "endOffset": {"signals": {"0": 10, "1": 20}},
            "latestOffset": {"signals": {"0": 15, "1": 20, "2": 4}},
            "numInputRows": 30,
        },
        {"description": "FileStreamSource[in]", "numInputRows": 0},
    ],
    "sink": {"description": "DeltaSink", "numOutputRows": 12},
}


def test_lag_is_told_per_partition_without_a_consumer_group() -> None:
    found = batch_completed("raw", PROGRESS)
    assert found.kafka_lags == {"signals:0": 5, "signals:1": 0, "signals:2": 4}
    assert found.kafka_lag == 9


def test_latency_runs_from_the_event_to_the_commit() -> None:
    found = batch_completed("raw", PROGRESS)
    assert found.latency_max_ms == 71_500


def test_state_is_added_up_and_its_commit_is_that_of_one_partition() -> None:
    found = batch_completed("raw", PROGRESS)
    assert (found.state_rows, found.state_bytes, found.state_partitions) == (10, 1500, 4)
    assert found.state_commit_ms == 100 + 20


def test_rows_out_are_unknown_where_the_sink_does_not_tell() -> None:
    assert batch_completed("raw", PROGRESS).output_rows == 12
    quiet = {**PROGRESS, "sink": {"numOutputRows": -1}, "eventTime": {}, "sources": []}
    found = batch_completed("raw", quiet)
    assert (found.output_rows, found.latency_max_ms, found.kafka_lag) == (None, None, None)
    assert found.source_rows == {}
