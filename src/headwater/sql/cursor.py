"""Walks the tokens of one statement and words the error where they are not as expected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headwater.errors import Position, SqlSyntax, nearest
from headwater.tokens import Token, TokenError, TokenKind, tokens


class Cursor:
    """One walk over a statement's tokens; `file` is what errors name."""

    def __init__(self, read: list[Token], *, file: str) -> None:
        self._tokens = read
        self._at = 0
        self.file = file

    @property
    def next(self) -> Token:
        return self._tokens[self._at]

    @property
    def index(self) -> int:
        return self._at

    @property
    def is_at_end(self) -> bool:
        return self.next.kind is TokenKind.END

    @property
    def last(self) -> Token:
        """The statement's last token before its end."""
        return self._tokens[-2]

    def take(self) -> Token:
        token = self.next
        if token.kind is not TokenKind.END:
            self._at += 1
        return token

    def accept(self, *words: str) -> bool:
        """Takes a sequence of keywords where all of them stand here."""
        ahead = self._tokens[self._at : self._at + len(words)]
        is_there = len(ahead) == len(words) and all(
            token.is_word(word) for token, word in zip(ahead, words, strict=True)
        )
        if is_there:
            self._at += len(words)
        return is_there

    def accept_symbol(self, symbol: str) -> bool:
        is_there = self.next.is_symbol(symbol)
        self._at += is_there
        return is_there

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.accept(word):
                raise self.error(choices=[word])

    def expect_symbol(self, symbol: str) -> None:
        if not self.accept_symbol(symbol):
            raise self.error(expected=repr(symbol))

    def name(self, of: str) -> str:
        if not self.next.is_name:
            raise self.error(expected=f"the name of {of}")
        return self.take().value

    def string(self, of: str) -> str:
        if self.next.kind is not TokenKind.STRING:
            raise self.error(expected=f"{of} in quotes")
        return self.take().value

    def inside_parentheses(self, of: str) -> list[Token]:
        """Takes `( … )` and gives the tokens between, with an END token."""
        opening = self.next
        self.expect_symbol("(")
        first, depth = self._at, 1
        while depth:
            if self.is_at_end:
                raise self.error(
                    f"the parenthesis of {of} is never closed", expected="')'", token=opening
                )
            token = self.take()
            depth += token.is_symbol("(") - token.is_symbol(")")
        closing = self._tokens[self._at - 1]
        end = Token(TokenKind.END, "", "", closing.offset, closing.line, closing.column)
        return [*self._tokens[first : self._at - 1], end]

    def position(self, token: Token | None = None) -> Position:
        token = token or self.next
        return Position(self.file, token.line, token.column)

    def error(
        self,
        what: str | None = None,
        *,
        choices: Iterable[str] = (),
        expected: str | None = None,
        remedy: str | None = None,
        token: Token | None = None,
    ) -> SqlSyntax:
        """The error at `token` (the next one), with the choice that is nearest to it."""
        token = token or self.next
        choices = list(choices)
        close = nearest(token.text.upper(), [choice.split()[0] for choice in choices])
        meant = [choice for choice in choices if close and choice.split()[0] == close]
        return SqlSyntax(
            what or f"{str(token)!r} cannot stand here",
            where=self.position(token),
            found=None if what is None else str(token),
            expected=expected or alternatives(choices),
            close=None if remedy or not meant else " or ".join(meant),
            remedy=remedy,
        )


def alternatives(choices: Iterable[str]) -> str | None:
    choices = list(choices)
    if len(choices) < 2:
        return choices[0] if choices else None
    return f"one of: {', '.join(choices)}"


def cut(text: str, *, where: Position) -> list[Token]:
    """The tokens of `text`, whose first character stands at `where`."""
    try:
        found = tokens(text)
    except TokenError as error:
        place = moved(where, error.line, error.column)
        raise SqlSyntax(str(error), where=place, expected=error.expected) from None
    if (where.line, where.column) == (1, 1):
        return found
    places = [moved(where, token.line, token.column) for token in found]
    return [
        replace(token, line=place.line, column=place.column)
        for token, place in zip(found, places, strict=True)
    ]


def moved(where: Position, line: int, column: int) -> Position:
    """The place `line` and `column` of a text that itself begins at `where`."""
    if line == 1:
        return Position(where.file, where.line, where.column + column - 1)
    return Position(where.file, where.line + line - 1, column)
