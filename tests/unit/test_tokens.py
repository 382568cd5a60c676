"""SQL text is cut as Spark cuts it."""

from __future__ import annotations

import pytest

from headwater.tokens import TokenError, TokenKind, statements, tokens


def texts(text: str) -> list[str]:
    return [token.text for token in tokens(text)[:-1]]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("a--b\nc", ["a", "c"]),
        ("a--b\\\nstill\nc", ["a", "c"]),
        ("a/* b /* c */ d */e", ["a", "e"]),
        ("'a''b' \"c\" `d``e`", ["'a''b'", '"c"', "`d``e`"]),
        ("r'\\d' 'a\\'b'", ["r'\\d'", "'a\\'b'"]),
        ("1 1.5 .5e3 10L 1a a1", ["1", "1.5", ".5e3", "10L", "1a", "a1"]),
        ("a<=>b|>c->d::e<>f", ["a", "<=>", "b", "|>", "c", "->", "d", "::", "e", "<>", "f"]),
    ],
)
def test_text_is_cut_into_pieces(text: str, pieces: list[str]) -> None:
    assert texts(text) == pieces


@pytest.mark.parametrize(
    ("text", "value"),
    [("'a''b'", "a'b"), ("'a\\'b\\n'", "a'b\n"), ("r'\\n'", "\\n"), ("`a``b`", "a`b")],
)
def test_a_value_is_what_the_quotes_mean(text: str, value: str) -> None:
    assert tokens(text)[0].value == value


def test_every_token_knows_its_place() -> None:
    places = [(t.text, t.line, t.column) for t in tokens("a\n  b 'x\ny' c")]
    assert places == [("a", 1, 1), ("b", 2, 3), ("'x\ny'", 2, 5), ("c", 3, 4), ("", 3, 5)]


def test_statements_end_at_semicolons_and_empty_ones_are_none() -> None:
    groups = statements(tokens("a b; ;'c;d';;"))
    assert [[t.text for t in group] for group in groups] == [["a", "b", ""], ["'c;d'", ""]]
    assert all(group[-1].kind is TokenKind.END for group in groups)


@pytest.mark.parametrize("text", ["'a", '"a', "r'a", "`a", "/* a"])
def test_what_is_never_closed_is_shown_where_it_opened(text: str) -> None:
    with pytest.raises(TokenError) as caught:
        tokens(f"x\n {text}")
    assert (caught.value.line, caught.value.column) == (2, 2)
