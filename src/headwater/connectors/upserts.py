"""Rows that are written by key: one of each per batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.definitions import OutputMode, Table
from headwater.errors import KeyNotUnique
from headwater.schemas import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COPIES = "__copies"


def keeps_last_of_key(table: Table) -> bool:
    """Whether a table has the last row of every key and no other, by what was declared."""
    replaces = table.into is None or table.into.replaces_by_key
    return bool(table.key and table.order_by and replaces) and table.mode in (
        None,
        OutputMode.UPDATE,
    )


def one_row_per_key(
    frame: DataFrame, key: tuple[str, ...], order_by: tuple[str, ...] = ()
) -> DataFrame:
    """The last row of every key by `order_by`; without it a second row of a key fails the job with
    the code of KeyNotUnique."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    of_key = Window.partitionBy(*[F.col(quoted(name)) for name in key])
    if order_by:
        latest = of_key.orderBy(*[F.col(quoted(name)).desc_nulls_last() for name in order_by])
        ranked = frame.withColumn(_COPIES, F.row_number().over(latest))
        return ranked.where(F.col(_COPIES) == 1).drop(_COPIES)
    several = F.raise_error(F.lit(KeyNotUnique.code)).cast("boolean")
    counted = frame.withColumn(_COPIES, F.count(F.lit(1)).over(of_key))
    return counted.where(F.when(F.col(_COPIES) > 1, several).otherwise(True)).drop(_COPIES)


def is_not_older(new: Sequence[str], old: Sequence[str]) -> str:
    """A condition of SQL: the new row comes not before the old one, column after column; NULL comes
    before everything.

    >>> is_not_older(["new.at"], ["old.at"])
    '(new.at > old.at OR old.at IS NULL OR new.at = old.at)'
    """
    (first, *more), (other, *others) = new, old
    is_same = f"{first} = {other}"
    is_both_null = f"{other} IS NULL"
    if more:
        rest = is_not_older(more, others)
        is_same = f"({first} = {other} AND {rest})"
        is_both_null = f"({other} IS NULL AND ({first} IS NOT NULL OR {rest}))"
    return f"({first} > {other} OR {is_both_null} OR {is_same})"
