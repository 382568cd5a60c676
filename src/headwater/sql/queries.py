"""The SELECT behind a view or table: which names it reads, and how Spark runs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headwater.definitions import SqlBody
from headwater.errors import Location, Position, SqlSyntax, nearest
from headwater.sql.cursor import Cursor, moved
from headwater.sql.masks import Masked
from headwater.tokens import Token, TokenKind

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.errors import ParseError

_BEGINNINGS = ("SELECT", "WITH", "FROM", "TABLE", "VALUES")
_EXPECTED = "a query, such as SELECT … FROM …"
_KEYWORDS = (
    "SELECT DISTINCT FROM JOIN INNER LEFT RIGHT FULL OUTER CROSS SEMI ANTI LATERAL USING WHERE "
    "GROUP ORDER SORT HAVING LIMIT OFFSET UNION EXCEPT INTERSECT AND NOT BETWEEN LIKE CASE WHEN "
    "THEN ELSE END WINDOW OVER PARTITION WATERMARK DELAY STREAM"
)


def select_body(text: str, *, where: Location | None = None) -> SqlBody:
    """The body of a view or table, checked, in the form that runs as stream and as batch.

    `STREAM` is taken out: Spark refuses it on a batch, and the source already says that it is
    a stream. Lines and columns stay as the user wrote them.

    >>> select_body("SELECT * FROM STREAM(signals)").text
    'SELECT * FROM        signals '
    """
    tables_read(text, where=where)
    return SqlBody(Masked(text, _beginning(where)).without_stream())


def tables_read(text: str, *, where: Location | None = None) -> frozenset[str]:
    """The names that a SELECT reads as tables; names of its own WITH are none of them.

    >>> sorted(tables_read("WITH a AS (SELECT * FROM b) SELECT * FROM a JOIN STREAM c"))
    ['b', 'c']

    `where` is the place of the text, or of its declaration; raises `SqlSyntax`. The first call
    imports sqlglot, which takes about 0.4 s.
    """
    from sqlglot import exp

    with _told_of(where):
        masked = Masked(text, _beginning(where))
        _check_beginning(masked)
        query = _parsed(masked)
        found = (_name(table, masked) for table in query.find_all(exp.Table))
        return frozenset(name for name in found if name is not None)


def _beginning(where: Location | None) -> Position:
    return where if isinstance(where, Position) else Position("<sql>", 1, 1)


@contextmanager
def _told_of(where: Location | None) -> Iterator[None]:
    """A text inside Python has a place of its own: the error names both."""
    try:
        yield
    except SqlSyntax as error:
        inside = error.where
        if where is not None and isinstance(inside, Position) and inside.file == "<sql>":
            error.what += f" (line {inside.line}, column {inside.column} of the statement)"
            error.where = where
        raise


def _check_beginning(masked: Masked) -> None:
    cursor = Cursor(masked.tokens, file=masked.where.file)
    first = cursor.next
    if not first.is_word(*_BEGINNINGS) and not first.is_symbol("("):
        raise cursor.error(f"{str(first)!r} begins no query", choices=_BEGINNINGS)
    for token in masked.tokens:
        if token.is_symbol(";"):
            what = "one statement ends here and another follows"
            raise cursor.error(what, expected="a single query without ';'", token=token)


def _parsed(masked: Masked) -> exp.Expr:
    import sqlglot
    from sqlglot import ErrorLevel, exp
    from sqlglot.errors import ParseError, SqlglotError

    text = masked.for_sqlglot()
    try:
        query = sqlglot.parse_one(text, dialect="databricks", error_level=ErrorLevel.IMMEDIATE)
    except ParseError as error:
        raise _syntax(masked, error) from None
    except SqlglotError as error:
        raise SqlSyntax(str(error), where=masked.where, expected=_EXPECTED) from None
    if not isinstance(query, exp.Query | exp.Values):
        raise SqlSyntax("this is no query", where=masked.where, expected=_EXPECTED)
    return query


def _syntax(masked: Masked, error: ParseError) -> SqlSyntax:
    """sqlglot's complaint at the user's place, with the keyword that was likely meant."""
    facts = error.errors[0]
    # sqlglot counts columns by the last character of a token.
    column = (facts["col"] or 1) - len(facts["highlight"] or "") + 1
    place = moved(masked.where, facts["line"] or 1, column)
    tokens = masked.tokens
    at = next(
        (i for i, t in enumerate(tokens) if (t.line, t.column) >= (place.line, place.column)),
        len(tokens) - 1,
    )
    token = tokens[at]
    what, expected = _complaint(str(facts["description"]), str(token))
    return SqlSyntax(
        what,
        where=Position(place.file, token.line, token.column),
        expected=expected,
        close=_misspelled(tokens[max(0, at - 2) : at + 1]),
    )


def _complaint(description: str, token: str) -> tuple[str, str]:
    """What was found and what was expected, from sqlglot's words."""
    if description.startswith("Required keyword"):
        return f"{token!r} is not complete", f"what belongs to {token}"
    what = f"{token!r} cannot stand here"
    if description.startswith("Expecting "):
        return what, repr(description.removeprefix("Expecting "))
    return what, "a comma, an operator, the next clause or the end of the query"


def _misspelled(tokens: list[Token]) -> str | None:
    """The keyword that one of these words nearly is: `WEHRE` reads as an alias, so the error
    shows up to two tokens later."""
    keywords = _KEYWORDS.split()
    for token in reversed(tokens):
        word = token.text.upper()
        if token.kind is not TokenKind.WORD or word in keywords or len(word) < 3:
            continue
        close = nearest(word, [k for k in keywords if abs(len(k) - len(word)) <= 1])
        if close:
            return f"{close} in place of {token.text}"
    return None


def _name(table: exp.Table, masked: Masked) -> str | None:
    from sqlglot import exp

    if isinstance(table.this, exp.Anonymous) and table.this.name.upper() == "IDENTIFIER":
        raise SqlSyntax(
            "IDENTIFIER(…) hides which table is read",
            where=masked.where,
            remedy="write the table's name itself",
        )
    # A table-valued function, such as range(10), reads no table.
    if not isinstance(table.this, exp.Identifier):
        return None
    parts = [part.name for part in table.parts]
    if len(parts) == 1 and _is_own(table, parts[0]):
        return None
    return ".".join(parts)


def _is_own(table: exp.Table, name: str) -> bool:
    """Whether a WITH that is in sight of `table` defines `name`: a common table expression sees
    those before it, and itself only where it is recursive."""
    from sqlglot import exp

    below: exp.Expr | None = table
    inside: exp.Expr | None = None
    while below is not None:
        if isinstance(below, exp.CTE):
            inside = below
        with_clause = below.args.get("with_") or below.args.get("with")
        if isinstance(with_clause, exp.With):
            names = [cte.alias.lower() for cte in with_clause.expressions]
            if inside is not None and inside.parent is with_clause:
                last = [cte is inside for cte in with_clause.expressions].index(True)
                names = names[: last + bool(with_clause.args.get("recursive"))]
            if name.lower() in names:
                return True
        below = below.parent
    return False
