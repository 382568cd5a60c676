"""SQL text as tokens that know their place, cut the way Spark's own lexer cuts them."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass


class TokenKind(enum.Enum):
    WORD = "word"
    QUOTED = "quoted name"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """`value` is what the token means: a string without its quotes, a name without backticks."""

    kind: TokenKind
    text: str
    value: str
    offset: int
    line: int
    column: int

    @property
    def end(self) -> int:
        return self.offset + len(self.text)

    @property
    def is_name(self) -> bool:
        return self.kind in (TokenKind.WORD, TokenKind.QUOTED)

    def is_word(self, *words: str) -> bool:
        """Whether this is one of the given upper-case keywords, in any case of letters."""
        return self.kind is TokenKind.WORD and self.text.upper() in words

    def is_symbol(self, *symbols: str) -> bool:
        return self.kind is TokenKind.SYMBOL and self.text in symbols

    def __str__(self) -> str:
        return self.text or "the end"


class TokenError(ValueError):
    """Text that cannot be cut into tokens: something opened and never closed."""

    def __init__(self, what: str, expected: str, line: int, column: int) -> None:
        super().__init__(f"{what} is never closed")
        self.what = what
        self.expected = expected
        self.line = line
        self.column = column


# Spark 4.2 joins comment lines that end in a backslash and lets /* */ nest.
_LINE_COMMENT = re.compile(r"--(?:\\\n|[^\r\n])*")
_STRING = re.compile(r"""[rR]?(?:'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")""", re.S)
_RAW = re.compile(r"""[rR](?:'[^']*'|"[^"]*")""")
_QUOTED = re.compile(r"`(?:[^`]|``)*`")
_NUMBER = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:BD|[LSYFD])?(?!\w)", re.I)
_WORD = re.compile(r"\w+")
_SYMBOL = re.compile(r"<=>|<>|<=|>=|!=|==|\|\||\|>|->|=>|::|.", re.S)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_ESCAPE = re.compile(r"\\(.)", re.S)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "%": r"\%", "_": r"\_"}


def tokens(text: str) -> list[Token]:
    """All tokens of `text` without comments and blanks, then one END token.

    >>> [t.text for t in tokens("SELECT a -- why\\nFROM `my table`;")]
    ['SELECT', 'a', 'FROM', '`my table`', ';', '']

    Raises `TokenError`.
    """
    found: list[Token] = []
    lines = _Lines(text)
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
        elif text.startswith("--", at):
            at = _end(_LINE_COMMENT, text, at)
        elif text.startswith("/*", at):
            at = _comment_end(text, at, lines)
        else:
            token = _token(text, at, lines)
            found.append(token)
            at = token.end
    line, column = lines.place(found[-1].end if found else 0)
    found.append(Token(TokenKind.END, "", "", len(text), line, column))
    return found


def statements(all_tokens: list[Token]) -> list[list[Token]]:
    """Tokens grouped by `;`, each group with an END token; empty statements are left out."""
    groups: list[list[Token]] = [[]]
    for token in all_tokens:
        if token.is_symbol(";") or token.kind is TokenKind.END:
            end = Token(TokenKind.END, "", "", token.offset, token.line, token.column)
            groups[-1].append(end)
            groups.append([])
        else:
            groups[-1].append(token)
    return [group for group in groups if len(group) > 1]


class _Lines:
    def __init__(self, text: str) -> None:
        self._text = text

    def place(self, offset: int) -> tuple[int, int]:
        line = self._text.count("\n", 0, offset) + 1
        return line, offset - self._text.rfind("\n", 0, offset)


def _token(text: str, at: int, lines: _Lines) -> Token:
    line, column = lines.place(at)
    kind, end = _kind_and_end(text, at, line, column)
    piece = text[at:end]
    return Token(kind, piece, _value(kind, piece), at, line, column)


def _kind_and_end(text: str, at: int, line: int, column: int) -> tuple[TokenKind, int]:
    is_raw = text[at] in "rR" and text[at + 1 : at + 2] in ("'", '"')
    if is_raw or text[at] in "'\"":
        match = (_RAW if is_raw else _STRING).match(text, at)
        if match is None:
            quote = text[at + is_raw]
            raise TokenError("a string", f"a closing {quote}", line, column)
        return TokenKind.STRING, match.end()
    if text[at] == "`":
        match = _QUOTED.match(text, at)
        if match is None:
            raise TokenError("a quoted name", "a closing `", line, column)
        return TokenKind.QUOTED, match.end()
    if match := _NUMBER.match(text, at):
        return TokenKind.NUMBER, match.end()
    if match := _WORD.match(text, at):
        return TokenKind.WORD, match.end()
    return TokenKind.SYMBOL, _end(_SYMBOL, text, at)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    assert match is not None
    return match.end()


def _comment_end(text: str, at: int, lines: _Lines) -> int:
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, at):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise TokenError("a comment", "a closing */", *lines.place(at))


def _value(kind: TokenKind, piece: str) -> str:
    if kind is TokenKind.QUOTED:
        return piece[1:-1].replace("``", "`")
    if kind is not TokenKind.STRING:
        return piece
    if piece[0] in "rR":
        return piece[2:-1]
    quote = piece[0]
    body = piece[1:-1].replace(quote * 2, quote)
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match.group(1), match.group(1)), body)
