"""Texts that no encoding can write: Python's strings may hold halves of characters."""

from __future__ import annotations

import re
from typing import Any

_HALVES = re.compile("[\ud800-\udfff]")
_NO_TEXT = frozenset({int, float, bool, type(None)})  # what most of a list of numbers is


def well_formed(value: Any) -> Any:
    r"""A text, or plain values with texts in them, with a mark where half a character stood.

    Args:
        value: A text, or what JSON can carry, bytes among it.

    Example::

        >>> well_formed({"name": "w\ud800"}) == {"name": "w\ufffd"}
        True
    """
    if isinstance(value, str):
        if value.isascii():  # known without a look at it, as of the script that each widget carries
            return value
        try:
            value.encode()  # in a third of the time: the style sheet has a check mark
        except UnicodeEncodeError:
            return _HALVES.sub("\ufffd", value)
        return value
    if isinstance(value, list):
        return [each if type(each) in _NO_TEXT else well_formed(each) for each in value]
    if isinstance(value, dict):
        return {
            well_formed(name): inner if type(inner) in _NO_TEXT else well_formed(inner)
            for name, inner in value.items()
        }
    return value


def escaped(json_text: str) -> str:
    """JSON with halves of characters as it escapes them, so that whoever reads it has them again.

    Args:
        json_text: What ``json.dumps(..., ensure_ascii=False)`` gave.
    """
    return _HALVES.sub(lambda half: f"\\u{ord(half[0]):04x}", json_text)
