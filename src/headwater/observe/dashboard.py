"""The Grafana dashboard that comes with the metrics, made from their families."""

from __future__ import annotations

import json
from typing import Any

from headwater.observe import metrics

_WIDTH, _HEIGHT = 12, 8
_BY_TABLE = "{{table}}"
_CHOSEN = '{pipeline=~"$pipeline",table=~"$table"}'


def dashboard() -> str:
    """The JSON to import into Grafana; the data source is chosen at the import."""
    rows = [
        ("Rows read per second", "rowsps", [_rate(metrics.INPUT)]),
        ("Rows written per second", "rowsps", [_rate(metrics.OUTPUT)]),
        ("Batch time, p50 and p99", "s", _quantiles(metrics.DURATION)),
        ("Event to commit, p50 and p99", "s", _quantiles(metrics.LATENCY)),
        (
            "Batch time by phase",
            "s",
            [(f"rate({metrics.PHASE.name}{_CHOSEN}[$__rate_interval])", "{{table}} {{phase}}")],
        ),
        ("Watermark behind the commit", "s", [_value(metrics.WATERMARK_LAG)]),
        ("Rows in state", "short", [_value(metrics.STATE_ROWS)]),
        ("Memory of state", "bytes", [_value(metrics.STATE_BYTES)]),
        (
            "Kafka lag",
            "short",
            [(_value(metrics.LAG)[0], "{{table}} {{topic}} {{partition}}")],
        ),
        ("Late rows per second", "rowsps", [_rate(metrics.LATE)]),
        (
            "Rejected records per second",
            "rowsps",
            [(_rate(metrics.REJECTED)[0], "{{table}} {{source}}")],
        ),
        ("Restarts and failures", "short", [_rise(metrics.RESTARTS), _rise(metrics.FAILURES)]),
        ("Version of a model in use", "short", [_model(metrics.MODEL_VERSION)]),
        ("Score of the version in use", "short", [_model(metrics.MODEL_SCORE)]),
        ("Age of the version in use", "s", [_age(metrics.MODEL_PUBLISHED)]),
    ]
    panels = [_running(), *(_panel(n, *row) for n, row in enumerate(rows))]
    return json.dumps(
        {
            "__inputs": [
                {
                    "name": "DS_PROMETHEUS",
                    "label": "Prometheus",
                    "type": "datasource",
                    "pluginId": "prometheus",
                }
            ],
            "title": "Headwater",
            "uid": "headwater",
            "schemaVersion": 39,
            "refresh": "10s",
            "time": {"from": "now-30m", "to": "now"},
            "templating": {"list": [_variable("pipeline"), _variable("table")]},
            "panels": panels,
        },
        indent=1,
    )


def _rate(family: metrics.Family) -> tuple[str, str]:
    return f"rate({family.name}{_CHOSEN}[$__rate_interval])", _BY_TABLE


def _rise(family: metrics.Family) -> tuple[str, str]:
    word = family.name.removeprefix("headwater_query_").removesuffix("_total")
    return f"increase({family.name}{_CHOSEN}[$__rate_interval])", f"{_BY_TABLE} {word}"


def _value(family: metrics.Family) -> tuple[str, str]:
    return f"{family.name}{_CHOSEN}", _BY_TABLE


def _model(family: metrics.Family) -> tuple[str, str]:
    return f'{family.name}{{pipeline=~"$pipeline"}}', "{{model}}"


def _age(family: metrics.Family) -> tuple[str, str]:
    since, legend = _model(family)
    return f"time() - {since}", legend


def _quantiles(family: metrics.Family) -> list[tuple[str, str]]:
    inner = f"sum by (le, table) (rate({family.name}_bucket{_CHOSEN}[$__rate_interval]))"
    return [
        (f"histogram_quantile({share}, {inner})", f"{_BY_TABLE} p{round(share * 100)}")
        for share in (0.5, 0.99)
    ]


def _source() -> dict[str, str]:
    return {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}


def _targets(queries: list[tuple[str, str]]) -> list[dict[str, Any]]:
    return [
        {"datasource": _source(), "expr": query, "legendFormat": legend, "refId": chr(65 + n)}
        for n, (query, legend) in enumerate(queries)
    ]


def _running() -> dict[str, Any]:
    return {
        "id": 100,
        "type": "stat",
        "title": "Running queries",
        "datasource": _source(),
        "gridPos": {"x": 0, "y": 0, "w": 24, "h": 4},
        "targets": _targets([_value(metrics.UP)]),
    }


def _panel(number: int, title: str, unit: str, queries: list[tuple[str, str]]) -> dict[str, Any]:
    x, y = number % 2 * _WIDTH, 4 + number // 2 * _HEIGHT
    # Alone among them, the score of a model may be negative.
    lowest = {} if title.startswith("Score") else {"min": 0}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": title,
        "datasource": _source(),
        "fieldConfig": {"defaults": {"unit": unit, **lowest}, "overrides": []},
        "gridPos": {"x": x, "y": y, "w": _WIDTH, "h": _HEIGHT},
        "targets": _targets(queries),
    }


def _variable(label: str) -> dict[str, Any]:
    return {
        "name": label,
        "type": "query",
        "datasource": _source(),
        "query": f"label_values({metrics.UP.name}, {label})",
        "multi": True,
        "includeAll": True,
        "refresh": 2,
    }
