"""The serving layer: what the batch layer counted, and what has come since.

`python query.py` answers from Redis alone; `--check` also counts the whole topic as one batch.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from redis import Redis

from headwater.settings import Connection, load

if TYPE_CHECKING:
    from headwater import Pipeline

Cell = tuple[str, str]
"""A page and an hour."""


class Views(NamedTuple):
    by_batch: int = 0
    since: int = 0

    @property
    def merged(self) -> int:
        return self.by_batch + self.since


def connect(connection: Connection) -> Redis:
    password = connection.get("password")
    return Redis.from_url(connection.require("url"), password=password, decode_responses=True)


def answer(redis: Redis) -> dict[Cell, Views]:
    """Every row of the batch layer, plus the segments that it does not cover."""
    merged: dict[Cell, Views] = {}
    covered: dict[Cell, int] = {}
    for row in _rows(redis, "batch"):
        cell = (row["page"], row["hour"])
        merged[cell], covered[cell] = Views(int(row["views"])), int(row["covered"])
    for row in _rows(redis, "speed"):
        cell = (row["page"], row["hour"])
        if int(row["segment"]) > covered.get(cell, -1):
            found = merged.get(cell, Views())
            merged[cell] = found._replace(since=found.since + int(row["views"]))
    return merged


def _rows(redis: Redis, layer: str) -> list[dict[str, str]]:
    """The hashes of a layer, in one exchange with the server."""
    asked = redis.pipeline(transaction=False)
    for key in redis.scan_iter(f"{layer}:*", count=1000):
        asked.hgetall(key)
    return [row for row in asked.execute() if row]


def everything(speed: Pipeline) -> dict[Cell, int]:
    """The speed layer's own definition as a batch over all that the topic holds."""
    counted = speed.batch()["speed_views"].groupBy("page", "hour").sum("views")
    texts = counted.selectExpr("page", "date_format(hour, \"yyyy-MM-dd'T'HH:mm:ss'Z'\")", "*")
    return {(row[0], row[1]): row["sum(views)"] for row in texts.collect()}


def table(merged: dict[Cell, Views]) -> str:
    lines = [f"{'page':<6}{'hour':<22}{'batch':>6}{'since':>7}{'merged':>8}"]
    for (page, hour), views in sorted(merged.items()):
        lines.append(f"{page:<6}{hour:<22}{views.by_batch:>6}{views.since:>7}{views.merged:>8}")
    return "\n".join(lines)


def main() -> None:
    settings = load(Path(__file__).parent)
    merged = answer(connect(settings.connection("redis")))
    print(table(merged))
    if "--check" in sys.argv:
        from app import speed

        truth = everything(speed)
        is_equal = {cell: views.merged for cell, views in merged.items()} == truth
        print(f"{sum(truth.values())} clicks as one batch: {'equal' if is_equal else 'DIFFERENT'}")
        raise SystemExit(not is_equal)


if __name__ == "__main__":
    main()
