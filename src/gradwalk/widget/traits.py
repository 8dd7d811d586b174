"""The kinds of traits that the widgets are made of."""

from __future__ import annotations

from typing import Any

import traitlets

from ..schema.columns import decode, encode
from ..schema.values import DIRECTION_CHOICES


def _encoded(value: Any, _: Any) -> bytes | None:
    return None if value is None else encode(value)


def _decoded(value: Any, _: Any) -> Any:
    return None if value is None else decode(value)


TRAVELS = {"sync": True, "to_json": _encoded, "from_json": _decoded}
"""The tags of a trait that grows with the graph: it travels as bytes, None as None."""


def masked(trait: str, *, encoded: bool = True) -> dict[str, Any]:
    """Return the tags of a trait that a controller may mask, as the quiz does.

    Args:
        trait: Its name.
        encoded: Whether it travels as bytes.
    """

    def told(value: Any, obj: Any) -> Any:
        seen = obj._masked(trait, value)
        return _encoded(seen, obj) if encoded else seen

    return {"sync": True, "to_json": told, **({"from_json": _decoded} if encoded else {})}


class reacts(traitlets.ObserveHandler):  # noqa: N801  a decorator, as `traitlets.observe` is
    """A method of a widget of ours that runs when some of its traits change.

    `traitlets.observe`, but for one thing: the widget is not asked to tell anyone. Whoever is to be
    told is shown a pass as soon as it ends, and a widget's own reactions wait for nothing.

    Example::

        >>> class Counting(traitlets.HasTraits):
        ...     cursor = traitlets.Int(0)
        ...
        ...     @reacts("cursor")
        ...     def moved(self, change):
        ...         print(change["new"])
        >>> Counting().cursor = 2
        2
    """

    def __init__(self, *names: str) -> None:
        """Run it when one of these changes."""
        super().__init__(names, type="change")

    def instance_init(self, inst: Any) -> None:
        """Begin with a widget."""
        traitlets.HasTraits.observe(inst, self, self.trait_names, type=self.type)


class OfPass(traitlets.Any):
    """What a backward pass was seen to do; its owner looks for one that ended without telling."""

    def get(self, obj: Any, cls: Any = None) -> Any:
        """The value, of the last pass. Works out nothing unless there is a new one."""
        obj._refresh(describe=False)
        return super().get(obj, cls)


class OfTensors(traitlets.Any):
    """What tensors hold, which anyone may change without telling: worked out when it is read."""

    def get(self, obj: Any, cls: Any = None) -> Any:
        """The value, of the tensors as they are now."""
        obj._refresh()
        return super().get(obj, cls)


class Cursor(traitlets.Any):
    """How many steps have run; its owner checks it. None is checked like everything else."""

    allow_none = False

    def get(self, obj: Any, cls: Any = None) -> Any:
        """The value, at the end of a pass that has ended since."""
        if obj._is_stale:
            obj._refresh(describe=False)
        return super().get(obj, cls)

    def set(self, obj: Any, value: Any) -> None:
        """Set it in that pass; whoever looks afterwards shall find it there."""
        if obj._is_stale:
            obj._refresh(describe=False)
        super().set(obj, value)


class Selected(Cursor):
    """What is selected of the graph that is shown; its owner checks it."""

    allow_none = True


class Direction(traitlets.Any):
    """One of `DIRECTION_CHOICES`."""

    allow_none = False

    def validate(self, obj: Any, value: Any) -> str:  # noqa: ARG002
        """The direction, checked."""
        if not isinstance(value, str) or value not in DIRECTION_CHOICES:
            choices = ", ".join(map(repr, DIRECTION_CHOICES))
            raise ValueError(f"direction was given {value!r}; it is one of {choices}.")
        return value


class Constants(traitlets.Any):
    """Whether operands that need no grad are drawn."""

    allow_none = False

    def validate(self, obj: Any, value: Any) -> bool:  # noqa: ARG002
        """The choice, checked."""
        if not isinstance(value, bool):
            raise TypeError(
                f"constants was given {value!r}. Give it True to draw operands that need no grad, "
                "or False to leave them out."
            )
        return value
