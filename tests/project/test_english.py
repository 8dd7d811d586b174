"""Lists and counts in sentences."""

from __future__ import annotations

import pytest

from gradwalk.english import join_words, list_some, plural, with_counts

pytestmark = pytest.mark.one_python


@pytest.mark.parametrize(
    ("words", "sentence"),
    [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (list("abc"), "a, b and c")],
)
def test_words_are_joined(words: list[str], sentence: str):
    assert join_words(words) == sentence
    assert join_words(iter(words)) == sentence


def test_many_words_are_cut():
    assert list_some(list("abc"), 3) == "a, b and c"
    assert list_some(list("abcde"), 3) == "a, b, c and 2 more"


def test_things_are_counted():
    assert plural(1, "leaf", "leaves") == "1 leaf"
    assert plural(2, "leaf", "leaves") == "2 leaves"
    assert plural(0, "node") == "0 nodes"
    assert plural(2000, "node") == "2,000 nodes"


def test_equal_words_are_merged():
    assert with_counts(["mul", "add", "mul"]) == ["mul ×2", "add"]
