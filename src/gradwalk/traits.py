"""What the widget's traits are made of: the built front end, and kinds of traits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import traitlets

DIRECTIONS = ("down", "right", "up", "left")

_STATIC = Path(__file__).parent / "static"


def bundle(name: str) -> str:
    """The text of a file of the built front end."""
    path = _STATIC / name
    if not path.exists():
        raise ImportError(
            f"gradwalk's browser bundle {path} is missing: this is a source checkout that has not "
            "been built. Run `make build` in its root, or `npm ci && npm run build` in js."
        )
    return path.read_text(encoding="utf-8")


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
