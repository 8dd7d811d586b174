"""The kinds of traits that the widgets are made of."""

from __future__ import annotations

from typing import Any

import traitlets

from ..wire import DIRECTIONS
from ..wire.columns import decode, encode


def _encoded(value: Any, _: Any) -> bytes | None:
    return None if value is None else encode(value)


def _decoded(value: Any, _: Any) -> Any:
    return None if value is None else decode(value)


TRAVELS = {"sync": True, "to_json": _encoded, "from_json": _decoded}
"""The tags of a trait that grows with the graph: it travels as bytes, None as None."""


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
