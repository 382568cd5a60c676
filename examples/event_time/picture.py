"""Event time against arrival, as a picture: rows as points, the watermark as a line."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

Row = tuple[str, int, dt.datetime]
_WIDTH, _HEIGHT, _LEFT, _TOP = 640, 360, 70, 30
_COLOURS = {"on time": "#2a7", "out of order": "#e90", "late": "#d33"}


def drawn(batches: Sequence[Sequence[Row]], *, window_s: int, delay_s: int) -> str:
    """An SVG: batches from left to right, event time upwards, windows as bands."""
    moments = [at for batch in batches for _, _, at in batch]
    first = min(moments).replace(second=0)
    span = (max(moments) - first).total_seconds() + 60

    def x(number: float) -> float:
        return _LEFT + (number + 0.5) * (_WIDTH - _LEFT - 20) / len(batches)

    def y(moment: dt.datetime) -> float:
        return _TOP + (_HEIGHT - _TOP - 40) * (1 - (moment - first).total_seconds() / span)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
    ]
    edge = first
    while (edge - first).total_seconds() <= span:
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - 20}" y1="{y(edge):.1f}" y2="{y(edge):.1f}" '
            'stroke="#ddd"/>'
            f'<text x="8" y="{y(edge) + 4:.1f}">{edge:%H:%M:%S}</text>'
        )
        edge += dt.timedelta(seconds=window_s)
    newest: dt.datetime | None = None
    line: list[str] = []
    for number, batch in enumerate(batches):
        watermark = None if newest is None else newest - dt.timedelta(seconds=delay_s)
        if watermark is not None and watermark >= first:
            line += [f"{x(number - 0.5):.1f},{y(watermark):.1f}"]
            line += [f"{x(number + 0.5):.1f},{y(watermark):.1f}"]
        for position, (team, points, moment) in enumerate(batch):
            kind = _kind(moment, newest, watermark, window_s, first)
            across = x(number + (position - (len(batch) - 1) / 2) * 0.25)
            parts.append(
                f'<circle cx="{across:.1f}" cy="{y(moment):.1f}" r="6" fill="{_COLOURS[kind]}"/>'
                f'<text x="{across + 9:.1f}" y="{y(moment) + 4:.1f}">{team} {points}</text>'
            )
        parts.append(f'<text x="{x(number) - 20:.1f}" y="{_HEIGHT - 18}">batch {number}</text>')
        newest = max([at for _, _, at in batch] + ([newest] if newest else []))
    parts.append(
        f'<polyline points="{" ".join(line)}" fill="none" stroke="#36c" stroke-width="2"/>'
    )
    for number, (kind, colour) in enumerate([*_COLOURS.items(), ("watermark", "#36c")]):
        across = _LEFT + number * 120
        parts.append(
            f'<circle cx="{across}" cy="14" r="5" fill="{colour}"/>'
            f'<text x="{across + 10}" y="18">{kind}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _kind(
    moment: dt.datetime,
    newest: dt.datetime | None,
    watermark: dt.datetime | None,
    window_s: int,
    first: dt.datetime,
) -> str:
    number = int((moment - first).total_seconds()) // window_s
    end = first + dt.timedelta(seconds=(number + 1) * window_s)
    if watermark is not None and end <= watermark:
        return "late"
    return "out of order" if newest is not None and moment < newest else "on time"
