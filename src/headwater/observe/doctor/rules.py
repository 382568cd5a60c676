"""One rule per condition: a case in, one piece of advice out, or None.

A rule speaks only where its evidence is in the case; each names a setting that can be copied.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from headwater.definitions import duration_ms
from headwater.observe.doctor.cases import FEWEST, Case, epoch_s, median, slope
from headwater.runtime.session import CHANGELOG

_MUCH = 0.4
"""The share of a batch that may go into something else than rows."""
_MISSED = 1.4
"""A batch that is a little longer than the trigger's interval costs nothing: the next one follows
at once, with a few more rows."""
_FULL = 0.8
"""The share of time in batches from which on a table has no time left."""
_PROCESSORS = ("transformWithState", "applyInPandasWithState")
_LOG_WRITES = ("walCommit", "commitOffsets", "commitBatch")


@dataclass(frozen=True, slots=True)
class Advice:
    """What was found, what shows it, what would change, and the setting that changes it.

    A hint is a possibility; nothing is wrong.
    """

    rule: str
    table: str
    finding: str
    evidence: tuple[str, ...]
    gain: str
    setting: str
    is_hint: bool = False


Rule = Callable[[Case], Advice | None]


def advice(cases: Iterable[Case]) -> list[Advice]:
    """Everything that every rule has to say; advice before hints."""
    found = [said for case in cases for rule in RULES if (said := rule(case)) is not None]
    return sorted(found, key=lambda said: said.is_hint)


def too_many_partitions(case: Case) -> Advice | None:
    busy = case.busy
    partitions = max((b.state_partitions or 0 for b in busy), default=0)
    if len(busy) < FEWEST or partitions <= 4 * case.cores:
        return None
    batch_ms = median(b.duration_ms for b in busy)
    return Advice(
        "too_many_partitions",
        case.table,
        f"its state is in {partitions} partitions, on {case.cores} cores",
        (
            f"a batch of {median(b.input_rows for b in busy):,.0f} rows takes {_ms(batch_ms)}",
            f"every batch opens and commits {partitions} state stores",
        ),
        "a batch commits as many state stores as there are cores: several times less time",
        f"shuffle_partitions = {case.cores}  (in headwater.toml; the state is laid out anew: "
        f"headwater run --fresh {case.table})",
    )


def state_commits_dominate(case: Case) -> Advice | None:
    busy = [b for b in case.busy if b.state_commit_ms is not None]
    if len(busy) < FEWEST or max(b.state_partitions or 0 for b in busy) > 4 * case.cores:
        return None
    commit_ms = median(b.state_commit_ms or 0 for b in busy)
    batch_ms = median(b.duration_ms for b in busy)
    if commit_ms < 100 or commit_ms < 0.3 * batch_ms:
        return None
    return Advice(
        "state_commits_dominate",
        case.table,
        "committing state takes a large part of every batch",
        (
            f"a partition commits for {_ms(commit_ms)} of a batch's {_ms(batch_ms)} (medians)",
            f"state holds {busy[-1].state_rows or 0:,} rows",
        ),
        *_shorter_commits(case, batch_ms, commit_ms / batch_ms),
    )


def _shorter_commits(case: Case, batch_ms: float, share: float) -> tuple[str, str]:
    """What is gained, and the setting; old descriptions do not say what the session had."""
    if case.about.get("has_changelog") is False:
        profile = case.about.get("profile") or "local"
        return (
            f"a batch uploads what changed, not the whole state: up to {share:.0%} shorter",
            f'"{CHANGELOG}" = "true"  (in headwater.toml, [profile.{profile}.spark])',
        )
    return (
        "fewer batches, fewer commits: the changelog is on, and Apache Spark has no asynchronous "
        "checkpointing of state",
        f"trigger={_quoted(2 * max(batch_ms, case.interval_ms or 0))}",
    )


def backlog_grows(case: Case) -> Advice | None:
    busy = [b for b in case.busy if b.kafka_lag is not None]
    if len(busy) < FEWEST:
        return None
    lags = [b.kafka_lag or 0 for b in busy]
    per_s = slope([(epoch_s(b.at), float(b.kafka_lag or 0)) for b in busy])
    read_per_s = median(b.processed_rows_per_s for b in busy)
    rises = sum(later > earlier for earlier, later in itertools.pairwise(lags))
    read = sum(b.input_rows for b in busy[1:])
    grows = rises >= 0.6 * (len(lags) - 1) and lags[-1] - lags[0] > 0.1 * read
    if not grows or per_s < 1 or lags[-1] < max(1000, read_per_s):
        return None
    hour = lags[-1] + per_s * 3600
    return Advice(
        "backlog_grows",
        case.table,
        "records arrive faster than they are processed",
        (
            f"Kafka lag went from {lags[0]:,} to {lags[-1]:,} in {len(busy)} batches",
            f"it grows by {per_s:,.0f} records per second, to {hour:,.0f} in an hour",
            f"{read_per_s:,.0f} rows per second are processed",
        ),
        "the backlog shrinks once processing is faster than input",
        _faster(case),
    )


def _faster(case: Case) -> str:
    limited = [source for source in case.sources if source.get("limit")]
    if limited:
        return f"a higher max_per_batch for {limited[0]['name']} (now {limited[0]['limit']})"
    return 'master = "spark://…": more cores, on a larger machine or a cluster (headwater.toml)'


def batch_longer_than_trigger(case: Case) -> Advice | None:
    interval_ms, busy = case.interval_ms, case.busy
    if interval_ms is None or len(busy) < FEWEST:
        return None
    batch_ms = median(b.duration_ms for b in busy)
    if batch_ms <= _MISSED * interval_ms:
        return None
    fixed = case.share("queryPlanning", *_LOG_WRITES)
    return Advice(
        "batch_longer_than_trigger",
        case.table,
        f"batches take longer than the trigger's {_ms(interval_ms)}",
        (
            f"median of {len(busy)} batches: {_ms(batch_ms)}",
            f"{fixed:.0%} of it is planning and Spark's log, whatever the number of rows",
        ),
        "one larger batch in place of several small ones, each with its fixed cost",
        f"trigger={_quoted((4 if fixed >= _MUCH else 1.5) * batch_ms)}",
    )


def _runs_small_batches(case: Case, fixed: float) -> bool:
    """Whether one batch follows the other and this share of each has nothing to do with rows. A
    trigger that is too short has a rule of its own: one table gets one advice on its trigger."""
    follows = len(case.busy) >= FEWEST and case.load >= 0.5
    return follows and fixed >= _MUCH and batch_longer_than_trigger(case) is None


def planning_dominates(case: Case) -> Advice | None:
    busy, share = case.busy, case.share("queryPlanning")
    if not _runs_small_batches(case, share):
        return None
    batch_ms = median(b.duration_ms for b in busy)
    return Advice(
        "planning_dominates",
        case.table,
        "batches are so small that planning them takes most of the time",
        (
            f"{share:.0%} of {len(busy)} batches went into planning",
            f"a batch takes {_ms(batch_ms)} for {median(b.input_rows for b in busy):,.0f} rows",
        ),
        f"up to {share:.0%} of the time goes into rows instead",
        f"trigger={_quoted(max(1000, 4 * batch_ms))}",
    )


def log_writes_dominate(case: Case) -> Advice | None:
    busy, share = case.busy, case.share(*_LOG_WRITES)
    if not _runs_small_batches(case, share) or case.node.get("is_async_progress"):
        return None
    batch_ms = median(b.duration_ms for b in busy)
    is_stateful = any(b.state_rows is not None for b in busy)
    is_batched = str(case.node.get("trigger")).startswith(("default", "processing time"))
    may_be_async = is_batched and not is_stateful and case.node.get("system") == "kafka"
    return Advice(
        "log_writes_dominate",
        case.table,
        "batches are so small that writing Spark's log takes most of the time",
        (
            f"{share:.0%} of {len(busy)} batches went into writing offsets and commits",
            f"a batch takes {_ms(batch_ms)}",
        ),
        f"up to {share:.0%} shorter batches",
        'guarantee="at_least_once"  (asynchronous progress tracking: a crash repeats rows)'
        if may_be_async
        else f"trigger={_quoted(max(1000, 4 * batch_ms))}",
    )


def watermark_held_back(case: Case) -> Advice | None:
    """One source is silent and others are not; the slowest watermark counts."""
    busy = case.busy
    if len(busy) < FEWEST or not _stands_still(case):
        return None
    totals: dict[str, int] = {}
    for batch in busy:
        for source, rows in batch.source_rows.items():
            totals[source] = totals.get(source, 0) + rows
    silent = [source for source, rows in totals.items() if not rows]
    if not silent or len(silent) == len(totals):
        return None
    return Advice(
        "watermark_held_back",
        case.table,
        f"its watermark waits for {silent[0]}, which sends nothing",
        (
            f"the watermark stands at {busy[-1].watermark} since {len(busy)} batches",
            f"{sum(totals.values()):,} rows came from the other sources",
        ),
        "windows close and results appear; rows that the silent source sends later are late",
        'watermarks="maximum"  (of the table)',
    )


def watermark_stuck(case: Case) -> Advice | None:
    busy = case.busy
    if len(busy) < FEWEST + 3 or not _stands_still(case) or watermark_held_back(case):
        return None
    moves = {b.latency_max_ms for b in busy if b.latency_max_ms is not None}
    if not moves:
        return None
    return Advice(
        "watermark_stuck",
        case.table,
        "its watermark stands still although rows arrive",
        (
            f"the watermark stands at {busy[-1].watermark} since {len(busy)} batches",
            f"{sum(b.input_rows for b in busy):,} rows came, none newer than the newest before",
        ),
        "windows close and results appear",
        "the event time of the source: an event_time column that advances, and max_ahead against "
        "a clock that once ran ahead",
    )


def _stands_still(case: Case) -> bool:
    marks = {b.watermark for b in case.busy if b.watermark is not None}
    started = {mark for mark in marks if not mark.startswith("1970-01-01T00:00:00")}
    # Until the first row the watermark is the epoch; with several sources it stays there.
    if len(marks) != 1:
        return False
    return bool(started) or len(case.busy[0].source_rows) > 1


def delay_too_long(case: Case) -> Advice | None:
    for source in case.lateness:
        spare_ms = source.delay_ms - source.p999_ms
        if source.rows < 10_000 or spare_ms < 60_000 or source.delay_ms < 10 * source.p999_ms:
            continue
        wanted_ms = max(1000, 2 * source.p999_ms)
        return Advice(
            "delay_too_long",
            case.table,
            f"the watermark of {source.source} waits far longer than rows are late",
            (
                f"99.9 % of {source.rows:,} rows were at most {_ms(source.p999_ms)} behind",
                f"the watermark waits {source.delay}",
            ),
            f"results come up to {_ms(source.delay_ms - wanted_ms)} earlier, and less state",
            f"watermark={_quoted(wanted_ms)}  (of source {source.source})",
        )
    return None


def delay_too_short(case: Case) -> Advice | None:
    late = sum(b.late.late for b in case.busy if b.late)
    rows = sum(b.late.rows for b in case.busy if b.late)
    for source in case.lateness:
        # A few rows that come far too late are what late policies are for.
        if source.rows < 1000 or source.p999_ms <= source.delay_ms or late <= 0.005 * rows:
            continue
        return Advice(
            "delay_too_short",
            case.table,
            f"rows of {source.source} miss their windows",
            (
                f"{late:,} of {rows:,} rows were late in the last {len(case.busy)} batches",
                f"99.9 % were at most {_ms(source.p999_ms)} behind; "
                f"the watermark waits {source.delay}",
            ),
            "all but one row in a thousand counts; results come later by the difference",
            f"watermark={_quoted(source.p999_ms)}  (of source {source.source})",
        )
    return None


def state_grows(case: Case) -> Advice | None:
    busy = [b for b in case.busy if b.state_rows is not None]
    if len(busy) < 8 or not _had_time_to_shrink(case):
        return None
    rows = [b.state_rows or 0 for b in busy]
    steady = all(later >= earlier for earlier, later in itertools.pairwise(rows))
    recent = rows[-1] - rows[len(rows) // 2]
    # A fixed set of keys fills up and then stays: growth in the newer half is what counts.
    if not steady or rows[-1] < 1000 or recent < 0.2 * (rows[-1] - rows[0]) or recent <= 0:
        return None
    return Advice(
        "state_grows",
        case.table,
        "its state grows and nothing removes it",
        (
            f"{rows[0]:,} rows in state became {rows[-1]:,} in {len(busy)} batches",
            *_when_full(case),
        ),
        "state stays as large as the window of time that is still open",
        'watermark="10 minutes"  (of its source, with a window or an event-time key)',
    )


def _had_time_to_shrink(case: Case) -> bool:
    """With a watermark, state goes when windows close: wait until it has moved far enough. How long
    the windows are is not known, so ten batches may be too few. Where the table says that nothing
    removes its state, there is nothing to wait for."""
    if case.node.get("unbounded_state"):
        return True
    delays_ms = [
        duration_ms(source["watermark"])
        for source in case.sources
        if source.get("watermark") not in (None, "perfect")
    ]
    if not delays_ms:
        return True
    marks = [epoch_s(b.watermark) for b in case.busy if b.watermark]
    moved_ms = 1000 * (marks[-1] - marks[0]) if marks and marks[0] > 0 else 0.0
    return len(case.busy) >= 20 and moved_ms > 10 * max(delays_ms)


def _when_full(case: Case) -> tuple[str, ...]:
    points = [(epoch_s(b.at), float(b.state_bytes)) for b in case.busy if b.state_bytes]
    per_s = slope(points)
    if per_s <= 0 or case.memory_bytes is None:
        return ()
    left_s = (case.memory_bytes - points[-1][1]) / per_s
    if not 0 < left_s < 10 * 365 * 86_400:
        return ()
    day = dt.datetime.fromtimestamp(points[-1][0] + left_s, dt.UTC)
    return (
        f"at {per_s / 1024:,.1f} KB per second it outgrows this machine's memory on {day:%Y-%m-%d}",
    )


def few_kafka_partitions(case: Case) -> Advice | None:
    busy = [b for b in case.busy if b.kafka_lags]
    if len(busy) < FEWEST or case.load < 0.8:
        return None
    asked = max((source.get("min_partitions") or 0 for source in case.sources), default=0)
    partitions = max(len(busy[-1].kafka_lags), asked)
    is_behind = median(b.kafka_lag or 0 for b in busy) > median(b.input_rows for b in busy)
    if partitions >= case.cores or not is_behind:
        return None
    kafka = [source["name"] for source in case.sources if source.get("system") == "kafka"]
    return Advice(
        "few_kafka_partitions",
        case.table,
        f"{partitions} Kafka partitions keep {partitions} of {case.cores} cores at work",
        (
            f"batches run {case.load:.0%} of the time, with {busy[-1].kafka_lag or 0:,} records "
            "waiting",
        ),
        f"reading on all cores: up to {case.cores / partitions:.1f} times as fast",
        f'options={{"minPartitions": "{case.cores}"}}  (of {", ".join(kafka) or "the source"})',
    )


def skewed_partitions(case: Case) -> Advice | None:
    busy = [b for b in case.busy if len(b.kafka_lags) > 2]
    if len(busy) < FEWEST:
        return None
    lags = busy[-1].kafka_lags
    name, most = max(lags.items(), key=lambda item: item[1])
    others = median(lag for partition, lag in lags.items() if partition != name)
    before = busy[-FEWEST].kafka_lags.get(name, 0)
    if any((source.get("min_partitions") or 0) > len(lags) for source in case.sources):
        return None
    if most < 10_000 or most < 10 * max(1.0, others) or before < 0.2 * most:
        return None
    return Advice(
        "skewed_partitions",
        case.table,
        f"partition {name} holds far more than the others",
        (f"{most:,} records wait there; the median of the others is {others:,.0f}",),
        "partitions of equal size are done at the same time",
        "a key with more values for the producer of the topic; until then "
        f'options={{"minPartitions": "{2 * max(case.cores, len(lags))}"}} splits the large one',
    )


def many_small_files(case: Case) -> Advice | None:
    files = case.files
    if files is None or files.count < 1000 or files.total_bytes / files.count > 1024 * 1024:
        return None
    average = files.total_bytes / files.count / 1024
    interval_ms = case.interval_ms or median(b.duration_ms for b in case.busy)
    return Advice(
        "many_small_files",
        case.table,
        "the table is in many small files",
        (f"{files.count:,} files of {average:,.0f} KB on average",),
        "reading it opens far fewer files",
        f"trigger={_quoted(max(10_000, 10 * interval_ms))} for fewer new ones, and for those that "
        f"are there OPTIMIZE delta.`{dict(case.node.get('place') or {}).get('path', case.table)}`",
    )


def python_dominates(case: Case) -> Advice | None:
    busy, functions = case.busy, case.node.get("python") or []
    if not functions or len(busy) < FEWEST or case.load < _FULL:
        return None
    per_core = median(b.processed_rows_per_s for b in busy) / case.cores
    if case.share("addBatch") < 0.6 or per_core > 20_000:
        return None
    if median(b.duration_ms for b in busy) < 1000:
        return None
    evidence = (
        f"{per_core:,.0f} rows per second and core; {case.share('addBatch'):.0%} of the time goes "
        "into rows",
    )
    if all(name.startswith(_PROCESSORS) for name in functions):
        batch_ms = median(b.duration_ms for b in busy)
        return Advice(
            "python_dominates",
            case.table,
            "a state processor in Python sets the pace",
            evidence,
            "it is called for every key of a batch, however many rows that has: fewer calls",
            f"trigger={_quoted(3 * max(batch_ms, case.interval_ms or 0))}",
        )
    return Advice(
        "python_dominates",
        case.table,
        f"Python functions set the pace: {', '.join(functions)}",
        evidence,
        "built-in functions run in the JVM, about ten times as fast",
        "functions of pyspark.sql.functions in place of the Python ones, or at least pandas_udf",
    )


def faster_trigger_possible(case: Case) -> Advice | None:
    busy = case.busy
    is_stateless = bool(busy) and all(b.state_rows is None for b in busy)
    is_kafka = [source.get("system") for source in case.sources] == ["kafka"]
    fits = is_stateless and is_kafka and case.node.get("system") == "kafka"
    trigger = str(case.node.get("trigger") or "")
    if not fits or case.node.get("python") or trigger.startswith(("real time", "continuous")):
        return None
    return Advice(
        "faster_trigger_possible",
        case.table,
        "rows could pass in milliseconds: no state, from Kafka to Kafka",
        (f"a batch takes {_ms(median(b.duration_ms for b in busy))} now",),
        "latency of a few milliseconds; the guarantee becomes at-least-once, and a crash repeats "
        "up to one batch",
        'trigger=Trigger.real_time("5 minutes"), mode="update", guarantee="at_least_once"  '
        "(headwater plan says whether Spark allows it)",
        is_hint=True,
    )


RULES: tuple[Rule, ...] = (
    backlog_grows,
    batch_longer_than_trigger,
    too_many_partitions,
    state_commits_dominate,
    planning_dominates,
    log_writes_dominate,
    watermark_held_back,
    watermark_stuck,
    delay_too_long,
    delay_too_short,
    state_grows,
    few_kafka_partitions,
    skewed_partitions,
    many_small_files,
    python_dominates,
    faster_trigger_possible,
)


def _ms(ms: float) -> str:
    """A time with the unit that fits it.

    >>> _ms(80), _ms(2500), _ms(600_000)
    ('80 ms', '2.5 s', '10 min')
    """
    for limit, unit, size in ((1000, "ms", 1), (60_000, "s", 1000), (3_600_000, "min", 60_000)):
        if ms < limit:
            return f"{ms / size:.3g} {unit}"
    return f"{ms / 3_600_000:.3g} h"


def _quoted(ms: float) -> str:
    """A duration for a declaration, rounded up to something a person would write.

    >>> _quoted(1400), _quoted(130), _quoted(61_000)
    ('"2 seconds"', '"200 milliseconds"', '"2 minutes"')
    """
    if ms <= 900:
        return f'"{math.ceil(ms / 100) * 100} milliseconds"'
    if ms <= 60_000:
        seconds = math.ceil(ms / 1000)
        return f'"{seconds} second{"s" if seconds > 1 else ""}"'
    return f'"{math.ceil(ms / 60_000)} minutes"'
