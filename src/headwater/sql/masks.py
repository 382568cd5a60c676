"""Query text with stretches blanked out, so that every place stays what it was.

Spark's grammar is wider than sqlglot's: what sqlglot does not know is blanked before it reads.
"""

from __future__ import annotations

from headwater.errors import Position
from headwater.sql.cursor import Cursor, cut
from headwater.sql.intervals import interval
from headwater.tokens import Token

_CLAUSE_WORDS = (
    "SELECT WHERE GROUP HAVING ORDER SORT CLUSTER DISTRIBUTE LIMIT OFFSET UNION EXCEPT "
    "INTERSECT MINUS WINDOW QUALIFY"
)
_AFTER_FROM = _CLAUSE_WORDS.split()
_BETWEEN_QUERIES = ("UNION", "EXCEPT", "INTERSECT", "MINUS", "ALL", "DISTINCT")

Stretch = tuple[int, int]


class Masked:
    """A query's text, its tokens, and the forms of it that others read."""

    def __init__(self, text: str, where: Position) -> None:
        self.text = text
        self.where = where
        self.tokens = cut(text, where=where)

    def without_stream(self) -> str:
        return self._blanked(self._stream_words())

    def for_sqlglot(self) -> str:
        text = self._blanked([*self._stream_words(), *self._watermarks(), *self._options()])
        characters = list(text)
        for index, token in enumerate(self.tokens):
            # sqlglot takes GROUP BY window(…) and GROUP BY window for a WINDOW clause.
            if token.is_word("WINDOW") and not self._is_window_clause(index):
                characters[token.offset] = "_"
            # `TABLE name` is a query in Spark; to sqlglot it is a column with an alias.
            if token.is_word("TABLE") and self._begins_query(index):
                characters[token.offset : token.end] = "FROM "
        return "".join(characters)

    def _is_window_clause(self, index: int) -> bool:
        before, after = self.tokens[max(0, index - 1)], self.tokens[index + 1 : index + 3]
        is_named = len(after) == 2 and after[0].is_name and after[1].is_word("AS")
        return is_named or before.is_word("FROM", "JOIN")

    def _begins_query(self, index: int) -> bool:
        if index == 0:
            return True
        before = self.tokens[index - 1]
        return before.is_symbol("(", ")") or before.is_word(*_BETWEEN_QUERIES)

    def _blanked(self, stretches: list[Stretch]) -> str:
        characters = list(self.text)
        for start, end in stretches:
            for at in range(start, end):
                if characters[at] != "\n":
                    characters[at] = " "
        return "".join(characters)

    def _stream_words(self) -> list[Stretch]:
        """`STREAM` before a table's name, and the parentheses of `STREAM(name)`."""
        found: list[Stretch] = []
        is_in_from = [False]
        starts_relation = False
        for index, token in enumerate(self.tokens[:-1]):
            after = self.tokens[index + 1]
            if starts_relation and token.is_word("STREAM") and _may_be_read(after):
                found.append((token.offset, token.end))
                found += self._parentheses(index + 1)
            was_start, starts_relation = starts_relation, False
            if token.is_symbol("("):
                is_in_from.append(was_start)
                starts_relation = was_start
            elif token.is_symbol(")") and len(is_in_from) > 1:
                is_in_from.pop()
            elif token.is_word("FROM"):
                is_in_from[-1] = starts_relation = True
            elif token.is_word("JOIN"):
                starts_relation = True
            elif token.is_word(*_AFTER_FROM):
                is_in_from[-1] = False
            elif token.is_symbol(","):
                starts_relation = is_in_from[-1]
        return found

    def _parentheses(self, opening: int) -> list[Stretch]:
        if not self.tokens[opening].is_symbol("("):
            return []
        closing = opening + 1
        while self.tokens[closing].is_name or self.tokens[closing].is_symbol("."):
            closing += 1
        if not self.tokens[closing].is_symbol(")"):
            return []
        ends = (self.tokens[opening], self.tokens[closing])
        return [(token.offset, token.end) for token in ends]

    def _watermarks(self) -> list[Stretch]:
        found = []
        for index, token in enumerate(self.tokens):
            delay = self._delay_after(index) if token.is_word("WATERMARK") else None
            if delay is None:
                continue
            cursor = Cursor(self.tokens[delay:], file=self.where.file)
            cursor.expect("DELAY", "OF")
            interval(cursor)
            found.append((token.offset, self.tokens[delay + cursor.index - 1].end))
        return found

    def _delay_after(self, index: int) -> int | None:
        depth = 0
        for at in range(index + 1, len(self.tokens)):
            token = self.tokens[at]
            depth += token.is_symbol("(") - token.is_symbol(")")
            if depth < 0 or (depth == 0 and token.is_word("FROM", "JOIN", *_AFTER_FROM)):
                return None
            if depth == 0 and token.is_word("DELAY"):
                return at
        return None

    def _options(self) -> list[Stretch]:
        """`WITH (…)` behind a table: options of one read."""
        found = []
        for index, token in enumerate(self.tokens[:-1]):
            if token.is_word("WITH") and self.tokens[index + 1].is_symbol("("):
                cursor = Cursor(self.tokens[index + 1 :], file=self.where.file)
                cursor.inside_parentheses("WITH")
                found.append((token.offset, self.tokens[index + cursor.index].end))
        return found


def _may_be_read(token: Token) -> bool:
    return token.is_symbol("(") or (token.is_name and not token.is_word("AS", "JOIN", "WHERE"))
