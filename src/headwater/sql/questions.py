"""A question in Spark's SQL: one SELECT, and whether Spark may answer it beside its other work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headwater.errors import SqlFailed, SqlRefused

if TYPE_CHECKING:
    from sqlglot import exp

# No join, and no function whose value can be larger than what it is given: a string that is
# repeated, or rows that are gathered in a list, would take the memory of the driver.
_PLAIN = """
    Select From Table TableAlias Identifier Subquery With CTE Where Group Having Order Ordered
    Limit Offset Distinct Alias Column Dot Bracket Star Literal Null Boolean Paren Tuple
    And Or Not EQ NEQ NullSafeEQ GT GTE LT LTE Between In Is Like ILike
    Neg Add Sub Mul Div Mod Case If Coalesce Cast TryCast DataType DataTypeParam
    Count Sum Min Max Avg Stddev Variance ApproxDistinct
    Abs Round Floor Ceil Length Upper Lower Trim
    CurrentTimestamp CurrentDate TimestampTrunc DateTrunc Date Interval Var Extract
    Year Month Day Hour Minute Second
"""


def parsed(text: str) -> exp.Query:
    """The one question that the text holds."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import ParseError, TokenError

    try:
        statements = [found for found in sqlglot.parse(text, read="spark") if found is not None]
    except (ParseError, TokenError) as problem:
        raise SqlFailed(_first_error(problem)) from None
    if len(statements) != 1:
        raise SqlRefused(f"{len(statements)} statements")
    [statement] = statements
    if not isinstance(statement, exp.Query) or statement.find(exp.Into, exp.DML, exp.DDL):
        raise SqlRefused(f"{statement.key.upper()}: {text.strip()[:60]}")
    return statement


def _first_error(problem: Exception) -> str:
    """Where and what, without the escape codes with which sqlglot underlines."""
    errors = getattr(problem, "errors", None)
    if errors:
        first = errors[0]
        return f"line {first['line']}, column {first['col']}: {first['description']}"
    return str(problem).splitlines()[0]


def tables_of(question: exp.Query) -> Iterator[exp.Table]:
    """Where a question names a table that is not one of its own."""
    from sqlglot import exp

    own = {cte.alias.lower() for cte in question.find_all(exp.CTE)}
    for table in question.find_all(exp.Table):
        if table.name and table.name.lower() not in own:
            yield table


def is_plain(question: exp.Query, table: str) -> bool:
    """Whether Spark can answer it row by row and group by group: it reads this one table in one
    place, and what it takes beside that does not grow with the number of rows."""
    from sqlglot import exp

    if not isinstance(question, exp.Select):
        return False
    read = list(tables_of(question))
    if len(read) != 1 or read[0].name.lower() != table.lower() or read[0].db:
        return False
    inner = (found for found in question.find_all(exp.Select) if found is not question)
    kinds = {type(part).__name__ for part in question.walk()}
    return kinds <= set(_PLAIN.split()) and all(is_input(found) for found in inner)


def is_input(question: exp.Select) -> bool:
    """Whether it stands where a table could: there it cannot speak of columns outside."""
    from sqlglot import exp

    above = question.parent
    if isinstance(above, exp.Subquery):
        return isinstance(above.parent, exp.From | exp.Join)
    return isinstance(above, exp.CTE)


def asked_of(text: str, table: str, view: str) -> str:
    """A plain question in Spark's SQL, of a view in place of the table; raises SqlRefused for any
    other."""
    from sqlglot import exp

    question = parsed(text)
    if not is_plain(question, table):
        raise SqlRefused(text.strip()[:60])
    [read] = tables_of(question)
    read.replace(exp.to_table(view).as_(read.alias_or_name))
    return question.sql(dialect="spark")
