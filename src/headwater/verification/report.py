"""A verification as a page that can be sent around."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from headwater.testing.kept import Row
from headwater.testing.values import TOLERANCE, shown
from headwater.verification.problems import Problem

_STYLE = """
body { font-family: system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 }
td, th { border: 1px solid #8884; padding: .25rem .6rem; text-align: left }
.missing td { background: #d33a2c22 } .extra td { background: #2c7ad322 }
pre { background: #8881; overflow: auto; padding: 1rem }
@media (prefers-color-scheme: dark) { body { background: #14171a; color: #e6e6e6 } }
"""


def as_html(title: str, facts: Sequence[str], problems: Sequence[Problem], test: str | None) -> str:
    """One page: what was run, which laws are broken, the rows that show it, the test."""
    parts = [f"<h1>{_text(title)}</h1>", _list(facts)]
    parts.append(f"<p>Floating-point values are equal within a relative {TOLERANCE:g}.</p>")
    if not problems:
        parts.append("<p><strong>Every law holds.</strong></p>")
    for problem in problems:
        parts.append(f"<h2>{_text(problem.table)}</h2><p>Broken law: {_text(problem.law)}.</p>")
        if problem.trial is not None:
            parts.append(
                f"<p>Found with {_text(problem.trial.describe())}, seed {problem.trial.seed}.</p>"
            )
        if problem.missing or problem.extra:
            parts.append(_rows(problem))
    if test is not None:
        parts.append(f"<h2>A test that reproduces it</h2><pre>{_text(test)}</pre>")
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{_text(title)}</title>'
        f"<style>{_STYLE}</style>\n<body>{body}</body></html>\n"
    )


def _rows(problem: Problem) -> str:
    head = "".join(f"<th>{_text(name)}</th>" for name in ("", *problem.columns))
    lines = [f"<tr>{head}</tr>"]
    lines += [_row(row, "missing", "in the batch only") for row in problem.missing]
    lines += [_row(row, "extra", "in the stream only") for row in problem.extra]
    return f"<table>{''.join(lines)}</table>"


def _row(row: Row, kind: str, words: str) -> str:
    cells = "".join(f"<td>{_text(shown(value))}</td>" for value in row)
    return f'<tr class="{kind}"><td>{words}</td>{cells}</tr>'


def _list(facts: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{_text(fact)}</li>" for fact in facts) + "</ul>"


def _text(text: str) -> str:
    return html.escape(text)
