"""What a user declared, as frozen values. Python and SQL produce the same ones.

A definition holds no resource and starts nothing. `location` and `body` are left out of
comparisons: two definitions are equal when they ask for the same thing.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from headwater.errors import InvalidDuration, InvalidLimit, Location, UnknownChoice

if TYPE_CHECKING:
    from headwater.connectors.interface import Connector


class OutputMode(enum.Enum):
    """What a table writes per batch: new rows, changed rows, or the whole result."""

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


class Guarantee(enum.Enum):
    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"


class OnReject(enum.Enum):
    """What happens to a record that cannot be parsed: kept aside, or the query fails."""

    CAPTURE = "capture"
    FAIL = "fail"


class OnDataLoss(enum.Enum):
    """What happens where a checkpoint goes on from input that is no longer there: the start is
    refused, or the gap is passed over. It is recorded in both cases."""

    FAIL = "fail"
    SKIP = "skip"


class TriggerKind(enum.Enum):
    DEFAULT = "default"
    PROCESSING_TIME = "processing time"
    ONCE = "once"
    AVAILABLE_NOW = "available now"
    CONTINUOUS = "continuous"
    REAL_TIME = "real time"


_DURATION = re.compile(
    r"^\s*(\d+)\s*(milliseconds?|ms|seconds?|s|minutes?|min|m|hours?|h|days?|d|weeks?|w)\s*$", re.I
)
_DURATION_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def duration_ms(text: str, *, what: str = "duration", where: Location | None = None) -> int:
    """Milliseconds of a duration such as "10 minutes".

    >>> duration_ms("10 minutes")
    600000
    """
    match = _DURATION.match(text) if isinstance(text, str) else None
    if match is None:
        raise InvalidDuration(what, text, where=where)
    unit = match.group(2).lower()
    short = "ms" if unit in ("ms",) or unit.startswith("milli") else unit[0]
    return int(match.group(1)) * _DURATION_MS[short]


def spark_duration(text: str) -> str:
    """A duration in words that Spark reads; it knows no short units."""
    return f"{duration_ms(text)} milliseconds"


_HISTORY = re.compile(r"^\s*(.+?)\s+of\s+(\S+)\s*$", re.I)


@dataclass(frozen=True, slots=True)
class History:
    """How far back rows are looked at, from the newest time of a column on.

    >>> History.parse("30 days of at")
    History(column='at', ms=2592000000)
    """

    column: str
    ms: int

    @classmethod
    def parse(cls, text: str) -> History:
        """Raises `InvalidDuration` where the text is no such length of a column."""
        match = _HISTORY.match(text) if isinstance(text, str) else None
        if match is None:
            raise InvalidDuration("history", text)
        return cls(match.group(2), duration_ms(match.group(1), what="history"))


@dataclass(frozen=True, slots=True)
class Trigger:
    """When a table's query runs a batch.

    >>> Trigger.parse("1 second") == Trigger.processing_time("1 second")
    True
    """

    kind: TriggerKind
    interval: str | None = None

    @staticmethod
    def default() -> Trigger:
        return Trigger(TriggerKind.DEFAULT)

    @staticmethod
    def processing_time(interval: str) -> Trigger:
        return Trigger(TriggerKind.PROCESSING_TIME, _checked(interval))

    @staticmethod
    def once() -> Trigger:
        return Trigger(TriggerKind.ONCE)

    @staticmethod
    def available_now() -> Trigger:
        return Trigger(TriggerKind.AVAILABLE_NOW)

    @staticmethod
    def continuous(checkpoint_interval: str) -> Trigger:
        return Trigger(TriggerKind.CONTINUOUS, _checked(checkpoint_interval))

    @staticmethod
    def real_time(batch_duration: str) -> Trigger:
        return Trigger(TriggerKind.REAL_TIME, _checked(batch_duration))

    @staticmethod
    def parse(text: str | Trigger, *, where: Location | None = None) -> Trigger:
        """`"default"`, `"once"`, `"available now"`, `"1 second"`, `"continuous 1 second"`,
        `"real time 5 seconds"`."""
        if isinstance(text, Trigger):
            return text
        words = text.strip().lower().replace("_", " ")
        if words in ("default", "once", "available now"):
            return Trigger(TriggerKind(words))
        for kind in (TriggerKind.CONTINUOUS, TriggerKind.REAL_TIME, TriggerKind.PROCESSING_TIME):
            if words.startswith(kind.value + " "):
                return Trigger(kind, _checked(words[len(kind.value) + 1 :], where))
        return Trigger(TriggerKind.PROCESSING_TIME, _checked(words, where))

    @property
    def is_bounded(self) -> bool:
        """Whether the query ends by itself."""
        return self.kind in (TriggerKind.ONCE, TriggerKind.AVAILABLE_NOW)

    def __str__(self) -> str:
        return f"{self.kind.value} {self.interval}" if self.interval else self.kind.value


def _checked(interval: str, where: Location | None = None) -> str:
    if duration_ms(interval, what="trigger", where=where) <= 0:
        raise InvalidDuration("trigger", interval, where=where)
    return interval.strip()


class LateKind(enum.Enum):
    """What becomes of a row that reaches a window which the watermark has closed."""

    DROP = "drop"
    CAPTURE = "capture"
    ALLOW = "allow"
    REFIRE = "refire"


class PaneValues(enum.Enum):
    """What a later firing of a window holds: the whole result, only what is new since the last
    firing, or the last value taken back beside the new one."""

    ACCUMULATING = "accumulating"
    DISCARDING = "discarding"
    RETRACTING = "retracting"


EVERY_BATCH = "every batch"
_LATE = re.compile(
    r"^(?P<kind>allow|refire)\s+(?P<lateness>.+?)(\s+early\s+(?P<early>every batch|.+?))?"
    r"(\s+(?P<values>accumulating|discarding|retracting))?$"
)


@dataclass(frozen=True, slots=True)
class Late:
    """What a table does with late rows.

    >>> Late.parse("refire 1 hour early 10 seconds") == Late.refire("1 hour", early="10 seconds")
    True
    """

    kind: LateKind
    lateness: str | None = None
    early: str | None = None
    values: PaneValues = PaneValues.ACCUMULATING

    @staticmethod
    def drop() -> Late:
        """They are dropped and counted, in input rows."""
        return Late(LateKind.DROP)

    @staticmethod
    def capture() -> Late:
        """They land in `<table>__late`, one row per missed window."""
        return Late(LateKind.CAPTURE)

    @staticmethod
    def allow(lateness: str) -> Late:
        """They count while the period lasts; a window's result is written on time and, where late
        rows came, once more when the period ends. Later ones are captured."""
        return Late(LateKind.ALLOW, _positive(lateness, "allowed lateness"))

    @staticmethod
    def refire(
        lateness: str,
        *,
        early: str | None = None,
        values: str | PaneValues = PaneValues.ACCUMULATING,
    ) -> Late:
        """The same, and every batch with late rows for a window fires it again. `early` also fires
        before the window ends: after a processing time, or `"every batch"`."""
        if early is not None and early != EVERY_BATCH:
            early = _positive(early, "early firing")
        chosen_values = chosen(PaneValues, values, what="values of panes")
        return Late(LateKind.REFIRE, _positive(lateness, "allowed lateness"), early, chosen_values)

    @staticmethod
    def parse(text: str | Late, *, where: Location | None = None) -> Late:
        """`"drop"`, `"capture"`, `"allow 1 hour"`, or in full
        `"refire 1 hour early 10 seconds discarding"`."""
        if isinstance(text, Late):
            return text
        words = " ".join(text.strip().lower().split())
        if words in ("drop", "capture"):
            return Late(LateKind(words))
        match = _LATE.match(words)
        if match is None:
            choices = ["drop", "capture", "allow 1 hour", "refire 1 hour"]
            raise UnknownChoice("late", text, choices, where=where)
        try:
            if match["kind"] == "allow" and not (match["early"] or match["values"]):
                return Late.allow(match["lateness"])
            if match["kind"] == "allow":
                raise UnknownChoice("late", text, ["allow 1 hour"], where=where)
            values = match["values"] or PaneValues.ACCUMULATING
            return Late.refire(match["lateness"], early=match["early"], values=values)
        except InvalidDuration as problem:
            problem.where = problem.where or where
            raise

    @property
    def has_panes(self) -> bool:
        return self.kind in (LateKind.ALLOW, LateKind.REFIRE)

    @property
    def keeps_rows(self) -> bool:
        """Whether rows that are too late land in `<table>__late`."""
        return self.kind is not LateKind.DROP

    def __str__(self) -> str:
        parts = [self.kind.value, self.lateness]
        parts += [f"early {self.early}" if self.early else None]
        parts += [self.values.value if self.values is not PaneValues.ACCUMULATING else None]
        return " ".join(part for part in parts if part)


def _positive(text: str, what: str) -> str:
    if duration_ms(text, what=what) <= 0:
        raise InvalidDuration(what, text)
    return text.strip()


class WatermarkPolicy(enum.Enum):
    """Which of several sources' watermarks a query goes by."""

    MINIMUM = "minimum"
    MAXIMUM = "maximum"


PERFECT = "perfect"
"""A watermark without a delay: the source promises that no row is older than one before it."""
PERFECT_DELAY = "1 ms"
"""Spark judges by `<=`: rows of the same moment as the newest are in order."""
NO_GUARD = "off"
DEFAULT_MAX_AHEAD = "1 day"


class LimitUnit(enum.Enum):
    ROWS = "rows"
    FILES = "files"
    BYTES = "bytes"


_LIMIT = re.compile(r"^\s*(\d[\d_,]*)\s*(rows?|files?|bytes?|b|kb|mb|gb)?\s*$", re.I)
_BYTES = {"b": 1, "byte": 1, "bytes": 1, "kb": 1024, "mb": 1024**2, "gb": 1024**3}


@dataclass(frozen=True, slots=True)
class Limit:
    """How much one batch reads at most: rows, files or bytes.

    >>> Limit.parse("64 MB")
    Limit(amount=67108864, unit=<LimitUnit.BYTES: 'bytes'>)
    """

    amount: int
    unit: LimitUnit

    @staticmethod
    def parse(text: int | str | Limit, *, where: Location | None = None) -> Limit:
        if isinstance(text, Limit):
            return text
        match = _LIMIT.match(str(text))
        amount = int(match.group(1).replace("_", "").replace(",", "")) if match else 0
        if match is None or amount <= 0:
            raise InvalidLimit(str(text), where=where)
        unit = (match.group(2) or "rows").lower()
        if unit in _BYTES:
            return Limit(amount * _BYTES[unit], LimitUnit.BYTES)
        return Limit(amount, LimitUnit.FILES if unit.startswith("file") else LimitUnit.ROWS)

    def __str__(self) -> str:
        return f"{self.amount} {self.unit.value}"


@dataclass(frozen=True, slots=True)
class PythonBody:
    """A function from DataFrames to a DataFrame; `parameters` are its names in order."""

    function: Callable[..., Any]
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SqlBody:
    """A SELECT statement; it reads every declared name that stands in it as a table."""

    text: str


Body = PythonBody | SqlBody


@dataclass(frozen=True, slots=True)
class Source:
    """An unbounded input table."""

    name: str
    connector: Connector
    schema: str | None = None
    event_time: str | None = None
    watermark: str | None = None
    max_ahead: str | None = None
    """How far ahead of the batch's time an event may be; None leaves it to the default."""
    max_per_batch: Limit | None = None
    on_reject: OnReject = OnReject.CAPTURE
    on_data_loss: OnDataLoss = OnDataLoss.FAIL
    location: Location = field(default=Location("<unknown>", 0), compare=False)

    @property
    def delay(self) -> str | None:
        """The watermark's delay as a duration."""
        return PERFECT_DELAY if self.watermark == PERFECT else self.watermark

    @property
    def max_ahead_ms(self) -> int | None:
        """How far ahead of its batch an event may be; None where nothing is rejected for it."""
        if self.watermark is None and self.max_ahead is None:
            return None
        ahead = self.max_ahead or DEFAULT_MAX_AHEAD
        return None if ahead == NO_GUARD else duration_ms(ahead)


@dataclass(frozen=True, slots=True)
class Lookup:
    """A static input table, read anew after every `reload` where one is given."""

    name: str
    connector: Connector
    schema: str | None = None
    reload: str | None = None
    location: Location = field(default=Location("<unknown>", 0), compare=False)


MODEL_VERSION = "model_version"
"""The column by which the rows of a model tell which version they are."""
OBJECT_COLUMNS = "path string"
"""What a table sees of a model that is no DataFrame."""


@dataclass(frozen=True, slots=True)
class Model:
    """What is learnt from a table's stored rows, in versions; tables read it like a lookup.

    With a `schema` the function returns a DataFrame, whose rows are kept. Without one it returns
    any Python object, which is kept as a file.
    """

    name: str
    body: PythonBody = field(compare=False)
    trained_on: str
    every: str | None = None
    schema: str | None = None
    evaluate: Callable[[Any, Any], float] | None = field(default=None, compare=False)
    held_back: float = 0.2
    history: History | None = None
    location: Location = field(default=Location("<unknown>", 0), compare=False)

    @property
    def columns(self) -> str:
        """What a table sees of it, beside the version."""
        return self.schema or OBJECT_COLUMNS


@dataclass(frozen=True, slots=True)
class View:
    """A named DataFrame function, inlined where it is used and never stored."""

    name: str
    body: Body = field(compare=False)
    reads: Mapping[str, str] = field(default_factory=dict)
    location: Location = field(default=Location("<unknown>", 0), compare=False)


@dataclass(frozen=True, slots=True)
class Table:
    """A result table: one streaming query.

    `into`, `mode`, `guarantee`, `late` are None where the user left the choice to the plan.
    """

    name: str
    body: Body = field(compare=False)
    reads: Mapping[str, str] = field(default_factory=dict)
    into: Connector | None = None
    key: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    mode: OutputMode | None = None
    trigger: Trigger = Trigger(TriggerKind.DEFAULT)
    guarantee: Guarantee | None = None
    late: Late | None = None
    watermarks: WatermarkPolicy = WatermarkPolicy.MINIMUM
    unbounded_state: bool = False
    location: Location = field(default=Location("<unknown>", 0), compare=False)


Definition = Source | Lookup | Model | View | Table


def kind_of(definition: Definition) -> str:
    return type(definition).__name__.lower()


@dataclass(frozen=True, slots=True)
class Definitions:
    """All declarations of one pipeline, in the order in which they were written."""

    pipeline: str
    by_name: Mapping[str, Definition]

    def of(self, kind: type[Any]) -> dict[str, Any]:
        return {name: d for name, d in self.by_name.items() if isinstance(d, kind)}

    @property
    def tables(self) -> dict[str, Table]:
        return self.of(Table)

    @property
    def sources(self) -> dict[str, Source]:
        return self.of(Source)

    @property
    def models(self) -> dict[str, Model]:
        return self.of(Model)


E = TypeVar("E", bound=enum.Enum)


def chosen(kind: type[E], text: str | E, *, what: str, where: Location | None = None) -> E:
    """The member of `kind` that a user's string names."""
    if isinstance(text, kind):
        return text
    try:
        return kind(str(text).strip().lower().replace("-", "_"))
    except ValueError:
        names = [str(member.value) for member in kind]
        raise UnknownChoice(what, str(text), names, where=where) from None
