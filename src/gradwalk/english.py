"""Lists and counts in sentences."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

MOST_LISTED = 8  # names in one sentence


def join_words(words: Iterable[str]) -> str:
    """Join words as a sentence lists them: "a, b and c"."""
    *first, last = list(words) or [""]
    return f"{', '.join(first)} and {last}" if first else last


def list_some(words: Sequence[str], most: int = MOST_LISTED) -> str:
    """Join the first of many words, and count the rest: "a, b and 3 more"."""
    rest = len(words) - most
    return f"{', '.join(words[:most])} and {rest:,} more" if rest > 0 else join_words(words)


def plural(number: int, word: str, words: str | None = None) -> str:
    """Count things: "1 node", "2 nodes"."""
    return f"{number:,} {word if number == 1 else words or f'{word}s'}"


def has_word(name: str, words: re.Pattern[str]) -> bool:
    """Return whether a word of a name in a program matches whole: "ema" of "emaModel"."""
    split = re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()
    return any(map(words.fullmatch, re.findall(r"[a-z]+\d?", split)))


def with_counts(words: Iterable[str] | Mapping[str, int]) -> list[str]:
    """Merge equal words: "mul ×3", "add"."""
    return [f"{word} ×{n}" if n > 1 else word for word, n in Counter(words).items()]


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return a sentence with the names that are most similar to an unknown one, or None."""
    near = [repr(each) for each in difflib.get_close_matches(name, set(names), n=3, cutoff=0.5)]
    if not near:
        return None
    return f"The nearest name{'s are' if len(near) > 1 else ' is'} {', '.join(near)}."
