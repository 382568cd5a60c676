"""What a plan refuses, with what is possible instead."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.errors.base import (
    DefinitionError,
    Location,
    UsageError,
    listed,
    nearest,
)


class ModeImpossible(DefinitionError):
    """An output mode that Spark, or the sink, cannot do for this query."""

    code = "MODE_IMPOSSIBLE"

    def __init__(
        self,
        table: str,
        mode: str,
        reason: str,
        *,
        sink: str,
        possible: Iterable[str],
        remedy: str | None = None,
        where: Location | None = None,
    ) -> None:
        possible = list(possible)
        super().__init__(
            f"table {table!r} cannot be written to {sink} in {mode} mode",
            where=where,
            found=reason,
            expected=f"mode {' or '.join(possible)}" if possible else "another sink or query",
            remedy=remedy or (f'mode="{possible[0]}", or leave mode out' if possible else None),
            data="nothing was read or written",
        )


class NoModeFits(DefinitionError):
    """Spark could run the query in some mode, but not in one that the sink can take."""

    code = "NO_MODE_FITS"

    def __init__(
        self,
        table: str,
        *,
        sink: str,
        sink_modes: Iterable[str],
        query_modes: Iterable[str],
        reasons: Iterable[str],
        remedy: str,
        where: Location | None = None,
    ) -> None:
        super().__init__(
            f"table {table!r}: no output mode fits both the query and {sink}",
            where=where,
            found="\n".join(
                [
                    f"{sink} takes: {listed(sink_modes)}; the query allows: {listed(query_modes)}",
                    *reasons,
                ]
            ),
            remedy=remedy,
            data="nothing was read or written",
        )


class NotStreamable(DefinitionError):
    """Spark cannot run the query as a stream in any mode."""

    code = "NOT_STREAMABLE"

    def __init__(
        self, table: str, reason: str, *, remedy: str | None = None, where: Location | None = None
    ) -> None:
        super().__init__(
            f"table {table!r} cannot run as a stream",
            where=where,
            found=reason,
            remedy=remedy or "change the query, or run it as a batch",
            data="nothing was read or written",
            next_command="headwater run --batch",
        )


class TriggerImpossible(DefinitionError):
    code = "TRIGGER_IMPOSSIBLE"

    def __init__(
        self,
        table: str,
        trigger: str,
        reasons: Iterable[str],
        *,
        possible: Iterable[str],
        where: Location | None = None,
    ) -> None:
        possible = list(possible)
        super().__init__(
            f"table {table!r} cannot run under the trigger {trigger!r}",
            where=where,
            found="\n".join(reasons),
            expected=f"one of: {', '.join(possible)}",
            data="nothing was read or written",
        )


class GuaranteeImpossible(DefinitionError):
    code = "GUARANTEE_IMPOSSIBLE"

    def __init__(
        self, table: str, reasons: Iterable[str], *, where: Location | None = None
    ) -> None:
        super().__init__(
            f"table {table!r} asks for exactly_once, but only at_least_once can be held",
            where=where,
            found="\n".join(reasons),
            remedy='mend what is named above, or say guarantee="at_least_once"',
            data="nothing was read or written",
        )


class KeyUnknown(DefinitionError):
    code = "KEY_UNKNOWN"

    def __init__(
        self,
        table: str,
        column: str,
        columns: Iterable[str],
        *,
        what: str = "key",
        where: Location | None = None,
    ) -> None:
        columns = list(columns)
        close = nearest(column, columns)
        super().__init__(
            f"the {what} of table {table!r} names {column!r}, which its result does not have",
            where=where,
            expected=f"one of: {', '.join(columns)}",
            remedy=f"did you mean {close!r}?" if close else None,
            data="nothing was read or written",
        )


class KeyNeedsOrder(DefinitionError):
    """Rows replace each other by their key, and nothing says which of several is the last."""

    code = "KEY_NEEDS_ORDER"

    def __init__(
        self,
        table: str,
        key: Iterable[str],
        reason: str,
        column: str,
        *,
        where: Location | None = None,
    ) -> None:
        super().__init__(
            f"table {table!r} could have several rows for one key ({', '.join(key)}) in a batch",
            where=where,
            found=reason,
            expected="one row per key, or an order in which the last row wins",
            remedy=f'order_by="{column}" (in SQL: ORDER BY ({column})): the last row wins; or '
            "group, or drop duplicates, by columns of the key only",
            data="nothing was read or written",
        )


class CheckpointNotResumable(UsageError):
    """Spark cannot continue a memory sink on the checkpoint of an earlier run."""

    code = "CHECKPOINT_NOT_RESUMABLE"

    def __init__(self, table: str, sink: str, *, where: Location | None = None) -> None:
        super().__init__(
            f"table {table!r} has a checkpoint, but its sink {sink} lost the rows with its session",
            where=where,
            remedy="start the table afresh: its checkpoint is moved aside and kept",
            data="nothing was read or written",
            next_command=f"headwater run --fresh {table}",
        )


class CheckpointIncompatible(UsageError):
    """The definition was changed in a way that the checkpoint cannot follow."""

    code = "CHECKPOINT_INCOMPATIBLE"

    def __init__(
        self, table: str, problems: Iterable[str], *, where: Location | None = None
    ) -> None:
        super().__init__(
            f"table {table!r} cannot be resumed on its checkpoint",
            where=where,
            found="; ".join(problems),
            remedy="take the change back, or start the table afresh: its checkpoint and rows are "
            "moved aside and kept",
            data="nothing was read or written",
            next_command=f"headwater run --fresh {table}",
        )


class LatePolicyImpossible(DefinitionError):
    """A late policy that a table's query cannot have."""

    code = "LATE_POLICY_IMPOSSIBLE"

    def __init__(
        self, table: str, policy: str, reason: str, *, remedy: str, where: Location | None = None
    ) -> None:
        super().__init__(
            f"table {table!r} cannot have late={policy!r}",
            where=where,
            found=reason,
            remedy=remedy,
            data="nothing was read or written",
        )


class UnboundedState(DefinitionError):
    """State that nothing ever removes, and nobody said that this is meant."""

    code = "UNBOUNDED_STATE"

    def __init__(self, table: str, kind: str, *, where: Location | None = None) -> None:
        super().__init__(
            f"the state of table {table!r} would grow for ever",
            where=where,
            found=f"no watermark limits its {kind}",
            remedy="give the source a watermark and group by, or compare, its event time; "
            "or say that it is meant: unbounded_state=True",
            data="nothing was read or written",
        )


class WatermarkTooShort(DefinitionError):
    """A watermark that a single trigger interval outruns by far."""

    code = "WATERMARK_TOO_SHORT"

    def __init__(
        self,
        table: str,
        source: str,
        delay: str,
        trigger: str,
        *,
        where: Location | None = None,
    ) -> None:
        super().__init__(
            f"table {table!r} would find most out-of-order rows late",
            where=where,
            found=f"the watermark of source {source!r} is {delay}, its trigger {trigger}",
            expected="a delay of at least a tenth of the interval",
            remedy='a longer watermark, a shorter trigger, or watermark="perfect" where the source '
            "keeps order",
            data="nothing was read or written",
        )


class DelayZero(DefinitionError):
    """A watermark without a delay, where rows of one moment would be late."""

    code = "DELAY_ZERO"

    def __init__(
        self, table: str, source: str, kind: str, *, where: Location | None = None
    ) -> None:
        super().__init__(
            f"table {table!r} would find rows late that are as new as the newest",
            where=where,
            found=f"source {source!r} has a delay of 0, and a {kind} drops rows as old as the "
            "watermark",
            remedy='watermark="perfect" where the source keeps order, else a delay',
            data="nothing was read or written",
        )


class NotInOrder(DefinitionError):
    """A source that promises order has several partitions, which have none in common."""

    code = "NOT_IN_ORDER"

    def __init__(self, source: str, partitions: int, *, where: Location | None = None) -> None:
        super().__init__(
            f"source {source!r} cannot have a perfect watermark",
            where=where,
            found=f"{partitions} partitions, whose rows arrive in no common order",
            expected="one partition",
            remedy='a delay, such as watermark="10 seconds"',
            data="nothing was read or written",
        )
