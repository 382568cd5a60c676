"""Scores of two teams in windows of 2 minutes: the same rows under five late policies.

`python scores.py` prints the five tables and draws the picture `scores.svg`.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import Late, Pipeline
from headwater.connectors import queue
from headwater.observe.grid import grid

scores = Pipeline("scores")


def at(clock: str) -> dt.datetime:
    return dt.datetime.fromisoformat(f"2026-01-01T{clock}+00:00")


BATCHES = [
    [("red", 5, at("12:00:20")), ("blue", 3, at("12:01:10"))],
    [("red", 4, at("12:01:40")), ("red", 2, at("12:02:30"))],
    [("blue", 8, at("12:03:20")), ("red", 1, at("12:04:10"))],
    [("red", 7, at("12:00:50")), ("blue", 6, at("12:04:40"))],
    [("blue", 9, at("12:01:30")), ("red", 3, at("12:06:30"))],
]
"""Rows as they arrive. The fourth and fifth batch bring rows for a window that is over."""

POLICIES = {
    "dropped": Late.drop(),
    "captured": Late.capture(),
    "accumulating": Late.refire("1 hour"),
    "discarding": Late.refire("1 hour", values="discarding"),
    "retracting": Late.refire("1 hour", values="retracting"),
}

scores.source(
    "points",
    queue(BATCHES),
    schema="team string, points bigint, at timestamp",
    event_time="at",
    watermark="1 minute",
)


def totals(points: DataFrame) -> DataFrame:
    per_window = points.groupBy(F.window("at", "2 minutes"), "team").agg(
        F.sum("points").alias("points")
    )
    return per_window.select(F.col("window.start").alias("start"), "team", "points")


for name, late in POLICIES.items():
    scores.table(name=name, late=late, mode="append")(totals)


def tables() -> dict[str, str]:
    """What each policy writes, as text."""
    spark = scores.plan().spark
    folder = Path(scores.settings.storage_root) / "scores/tables"
    shown = {}
    for name in [*POLICIES, "captured__late"]:
        frame = spark.read.format("delta").load(str(folder / name))
        wanted = ["start", "team", "points", "pane", "is_retraction"]
        columns = [column for column in wanted if column in frame.columns]
        if name == "captured__late":
            columns = ["team", "points", "at", "window.start", "watermark"]
        order = [c for c in ("start", "team", "pane_index", "at") if c in frame.columns]
        last = [F.desc("is_retraction")] if "is_retraction" in frame.columns else []
        rows = frame.orderBy(*order, *last).select(*columns).collect()
        shown[name] = grid([column.split(".")[-1] for column in columns], rows)
    return shown


if __name__ == "__main__":
    from picture import drawn

    scores.refresh()
    for name, text in tables().items():
        print(f"{name}\n{text}\n")
    Path("scores.svg").write_text(drawn(BATCHES, window_s=120, delay_s=60))
    print("picture: scores.svg")
