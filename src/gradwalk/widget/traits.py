"""The kinds of traits that the widgets are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import traitlets

from ..wire import DIRECTIONS


def packed(pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> dict[str, Any]:
    """The tags of a trait whose value is packed on its way to the browser.

    Args:
        pack: From the value to what travels, plain JSON values.
        unpack: Its inverse.

    Returns:
        What to give to ``tag``. An empty value, and None, travels as it is.
    """
    return {
        "sync": True,
        "to_json": lambda value, _: pack(value) if value else value,
        "from_json": lambda value, _: unpack(value) if value else value,
    }


class Fresh(traitlets.Any):
    """A trait whose owner brings it up to date before it is read."""

    def get(self, obj: Any, cls: Any = None) -> Any:
        """The value, fresh."""
        obj._refresh()
        return super().get(obj, cls)


class Cursor(traitlets.Any):
    """How many steps have run; its owner checks it. None is checked like everything else."""

    allow_none = False


class Direction(traitlets.TraitType[str, str]):
    """One of `DIRECTIONS`."""

    def validate(self, obj: Any, value: Any) -> str:  # noqa: ARG002
        """The direction, checked."""
        if value not in DIRECTIONS:
            raise ValueError(
                f"direction was given {value!r}; it is one of {', '.join(map(repr, DIRECTIONS))}."
            )
        return str(value)
