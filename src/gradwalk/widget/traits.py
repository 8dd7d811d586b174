"""The kinds of traits that the widgets have. Reading one brings the picture up to date first."""

from __future__ import annotations

from typing import Any

import anywidget
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
    """Return the tags of a trait that a controller may mask, as the quiz does."""

    def shown(value: Any, obj: Any) -> Any:
        seen = obj._masked(trait, value)
        return _encoded(seen, obj) if encoded else seen

    return {"sync": True, "to_json": shown, **({"from_json": _decoded} if encoded else {})}


class reacts(traitlets.ObserveHandler):  # noqa: N801  a decorator, as `traitlets.observe` is
    """A method of a widget of ours that runs when some of its traits change.

    `traitlets.observe` would count as an observer of the user's, for whom a pass is shown as soon
    as it ends (see `DrawingWidget.observe`).

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
        super().__init__(names, type="change")

    def instance_init(self, inst: Any) -> None:
        """Begin with a widget."""
        traitlets.HasTraits.observe(inst, self, self.trait_names, type=self.type)


class OwnNames(traitlets.MetaHasTraits):
    """The class of widgets whose ``help()`` shows their own methods, not those of ipywidgets."""

    def __dir__(cls) -> list[str]:  # noqa: N805  of a metaclass
        names = [*super().__dir__()]
        if not cls.__dict__.get("_lists_own_names"):  # while a class is made traitlets needs all
            return names
        theirs = {*dir(anywidget.AnyWidget)} - {"__init__", "__repr__", "__str__", "close"}
        return [name for name in names if name not in theirs]


class OfPass(traitlets.Any):
    """A trait about backward: a read looks for a pass that has ended since."""

    def get(self, obj: Any, cls: Any = None) -> Any:
        """Return the value, of the last pass."""
        obj._stage.refresh(describe=False)
        return super().get(obj, cls)


class OfTensors(traitlets.Any):
    """A trait computed from live tensors: computed again on every read."""

    def get(self, obj: Any, cls: Any = None) -> Any:
        """Return the value, of the tensors as they are now."""
        obj._stage.refresh()
        return super().get(obj, cls)


class Cursor(traitlets.Any):
    """A place in a pass or in a graph. A controller checks it, None included."""

    allow_none = False

    def get(self, obj: Any, cls: Any = None) -> Any:
        """Return the value, in the pass that ended last."""
        if obj._stage.is_stale:
            obj._stage.refresh(describe=False)
        return super().get(obj, cls)

    def set(self, obj: Any, value: Any) -> None:
        """Set the value in the pass that ended last, which a later read will not move."""
        if obj._stage.is_stale:
            obj._stage.refresh(describe=False)
        super().set(obj, value)


class Direction(traitlets.Any):
    """One of `DIRECTION_CHOICES`."""

    allow_none = False

    def validate(self, obj: Any, value: Any) -> str:  # noqa: ARG002
        """Return the direction, checked."""
        if not isinstance(value, str) or value not in DIRECTION_CHOICES:
            choices = ", ".join(map(repr, DIRECTION_CHOICES))
            raise ValueError(f"direction was given {value!r}; it is one of {choices}.")
        return value


class Constants(traitlets.Any):
    """Whether operands that need no grad are drawn."""

    allow_none = False

    def validate(self, obj: Any, value: Any) -> bool:  # noqa: ARG002
        """Return the choice, checked."""
        if not isinstance(value, bool):
            raise TypeError(
                f"constants was given {value!r}. Give it True to draw operands that need no grad, "
                "or False to leave them out."
            )
        return value
