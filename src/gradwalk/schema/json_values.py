"""Numbers and texts as JSON can carry them.

A lone surrogate is a character of a Python string that UTF-8 cannot encode.
"""

from __future__ import annotations

import math
import re
from typing import Any

from .values import JsonNumber

_SURROGATES = re.compile("[\ud800-\udfff]")
_NO_TEXT = frozenset({int, float, bool, type(None)})  # most entries of most lists


def well_formed(value: Any) -> Any:
    r"""Replace lone surrogates by U+FFFD, in a text or in the texts of nested values.

    ``value``: a text, JSON values or bytes.

    Example:
        >>> well_formed({"name": "w\ud800"}) == {"name": "w\ufffd"}
        True
    """
    if isinstance(value, str):
        if value.isascii():  # a stored flag, so fast for a widget's script
            return value
        try:
            value.encode()  # takes a third of the pattern's time
        except UnicodeEncodeError:
            return _SURROGATES.sub("\ufffd", value)
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
    """Escape lone surrogates in the result of ``json.dumps(..., ensure_ascii=False)``."""
    return _SURROGATES.sub(lambda found: f"\\u{ord(found[0]):04x}", json_text)


_LARGEST_EXACT = 2**53  # a browser's numbers are doubles


def json_number(value: float) -> JsonNumber:
    """A number as JSON can carry it: NaN, infinities and integers beyond 2**53 become strings."""
    if isinstance(value, int):
        return value if abs(value) <= _LARGEST_EXACT else str(value)
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
