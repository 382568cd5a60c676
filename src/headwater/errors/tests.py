"""Tests of pipelines: scripts, rows and checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headwater.errors.base import HeadwaterError, QueryError, UsageError, listed, nearest


class CheckFailed(HeadwaterError, AssertionError):
    """A check of a test did not hold. The harness adds the script and the state of the queries."""

    code = "CHECK_FAILED"

    def __init__(self, what: str, *, found: str | None = None, expected: str | None = None) -> None:
        super().__init__(what, found=found, expected=expected)
        self.script: str | None = None
        self.state: str | None = None

    def __str__(self) -> str:
        parts = [super().__str__()]
        if self.script:
            parts.append("  script\n" + _indented(self.script))
        if self.state:
            parts.append("  queries\n" + _indented(self.state))
        return "\n".join(parts)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


class SeveralChecksFailed(HeadwaterError, AssertionError):
    code = "TESTS_FAILED"

    def __init__(self, failures: Mapping[str, str]) -> None:
        super().__init__(
            f"{len(failures)} of the tests failed: {listed(failures)}",
            found="\n".join(f"{name}\n{text}" for name, text in failures.items()),
        )


class RowMisfit(UsageError):
    """A row of a test that does not fit the columns it is meant for."""

    code = "ROW_MISFIT"

    def __init__(
        self,
        what: str,
        row: int,
        column: str | None,
        *,
        found: str | None = None,
        expected: str | None = None,
    ) -> None:
        place = f"row {row}" + (f", column {column}" if column else "")
        super().__init__(f"{what}: {place} does not fit", found=found, expected=expected)


class RawRecordsRefused(UsageError):
    code = "RAW_RECORDS_REFUSED"

    def __init__(self, source: str, *, has_parser: bool) -> None:
        problem = "mixed with rows" if has_parser else "and it parses none"
        super().__init__(
            f"source {source!r} was given raw records, {problem}",
            remedy="add rows and raw records in actions of their own"
            if has_parser
            else "give rows: only a source with a schema over JSON or CSV records parses them",
        )


class UnknownSource(UsageError):
    code = "UNKNOWN_SOURCE"

    def __init__(self, name: str, sources: Iterable[str]) -> None:
        sources = list(sources)
        close = nearest(name, sources)
        super().__init__(
            f"the pipeline has no source {name!r}",
            expected=listed(sources),
            remedy=f"did you mean {close!r}?" if close else None,
        )


class UnknownLookup(UsageError):
    code = "UNKNOWN_LOOKUP"

    def __init__(self, name: str, lookups: Iterable[str]) -> None:
        super().__init__(f"the pipeline has no lookup {name!r}", expected=listed(lookups))


class NoSource(UsageError):
    code = "NO_SOURCE"

    def __init__(self, pipeline: str) -> None:
        super().__init__(
            f"pipeline {pipeline!r} has no source, so there is nothing to stream",
            remedy="declare one with `source`, or test the functions with plain DataFrames",
        )


class SourceColumnsUnknown(UsageError):
    code = "SOURCE_COLUMNS_UNKNOWN"

    def __init__(self, name: str, system: str) -> None:
        super().__init__(
            f"the columns of {name!r} are known only to {system}, which was not asked",
            remedy=f'declare a schema, or say it in the test: schemas={{"{name}": "… string"}}',
        )


class EventTimeFixed(UsageError):
    code = "EVENT_TIME_FIXED"

    def __init__(self, source: str) -> None:
        super().__init__(
            f"source {source!r} has no watermark, so its event time cannot be moved",
            remedy='declare event_time="…" and watermark="…" on the source',
        )


class EventTimeBackwards(UsageError):
    code = "EVENT_TIME_BACKWARDS"

    def __init__(self, source: str, to: str) -> None:
        super().__init__(
            f"the event time of {source!r} was moved further than {to} before",
            remedy="a watermark never goes back: add a late row instead",
        )


class TriggerNotTestable(UsageError):
    code = "TRIGGER_NOT_TESTABLE"

    def __init__(self, table: str, trigger: str) -> None:
        super().__init__(
            f"table {table!r} has the trigger {trigger}, which no test can drive",
            remedy='test it under another: harness(app, trigger="default")',
        )


class CrashRunFailed(QueryError):
    """A driver that nobody crashed did not come to its end."""

    code = "CRASH_RUN_FAILED"

    def __init__(self, tag: str, log: str) -> None:
        super().__init__(
            f"the driver of {tag} did not come to its end",
            found=log.strip(),
            data="only tables and topics of verify itself were written",
        )


class CrashPointUnreached(UsageError):
    code = "CRASH_POINT_UNREACHED"

    def __init__(self, point: str, table: str, reason: str) -> None:
        super().__init__(
            f"table {table!r} never reaches the crash point {point}: {reason}",
            remedy="add rows before the crash, or name the tables that have some to process",
        )


class NeverIdle(UsageError):
    code = "NEVER_IDLE"

    def __init__(self, table: str, seconds: int) -> None:
        super().__init__(
            f"table {table!r} still had something to do after {seconds} s",
            remedy="timers in processing time fire for ever under the default trigger: give the "
            "table a processing-time trigger and move the clock with advance()",
        )


class InputEmpty(UsageError):
    code = "INPUT_EMPTY"

    def __init__(self, sources: Iterable[str]) -> None:
        names = list(sources)
        super().__init__(
            f"no source holds a row to verify with: {listed(names)}",
            remedy=f"fill the source, or give rows: --input {names[0]}=rows.json",
        )


class InputTooLarge(UsageError):
    """The batch is compared in this process's memory, row by row."""

    code = "INPUT_TOO_LARGE"

    def __init__(self, rows: int, limit: int) -> None:
        super().__init__(
            f"the input has more than {limit:,} rows, which is more than is compared",
            found=f"at least {rows:,} rows",
            remedy="give a smaller input with --input SOURCE=FILE, or raise --rows",
        )
