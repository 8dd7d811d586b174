"""`Explanation`: the answer of `explain_grad`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from .reason import Reason

_PLACE = re.compile(r" at (\S*?[^\s/]:\d+|Cell In\[\d+\]:\d+|<[^<>\s]+>:\d+)\b")


class Explanation(str):
    """Why a ``.grad`` is None, zero or set: a sentence, with its parts. `explain_grad` returns it.

    It is a string, so it prints as the sentence and can be searched like one.

    Attributes:
        kind: The kind of cause: "gradient", "recorded", "summed", "unrecorded", "elsewhere",
            "frozen", "cut", "unused", "unknown", "intermediate", "waiting", "cleared", "zero" or
            "nan"; "module" for a module, and "saved" for a graph from a file.
        tensor: The name of the tensor, or the class of the module; None for a tensor without name.
        node: The id of its node in the graph; None if it has none, or no graph was given.
        line: The first line of the program that the sentence names, "net.py:7"; None for none.
        causes: The causes, each a slug such as "detached"; those of all parts for a module.
        parts: The explanations of a module's parameters, in their order; else empty.
    """

    kind: str
    tensor: str | None
    node: int | None
    line: str | None
    causes: tuple[str, ...]
    parts: tuple[Explanation, ...]

    def __new__(cls, *_: object, **__: object) -> Explanation:
        """Refuse: `explain_grad` makes it."""
        raise TypeError("Explanation() makes nothing. Call explain_grad(tensor, loss).")

    @classmethod
    def _of(
        cls,
        sentence: str,
        kind: str,
        *,
        tensor: str | None = None,
        node: int | None = None,
        causes: Iterable[str] = (),
        parts: Sequence[Explanation] = (),
    ) -> Explanation:
        """Make one."""
        found: Explanation = str.__new__(cls, sentence)
        place = _PLACE.search(sentence)
        found.kind, found.tensor, found.node = kind, tensor, node
        found.line = None if place is None else place[1]
        found.causes, found.parts = tuple(dict.fromkeys(causes)), tuple(parts)
        return found

    @classmethod
    def _because(cls, reason: Reason, tensor: str | None, node: int | None) -> Explanation:
        """Make one of a reason."""
        cause = re.sub(r"[^a-z0-9]+", "-", reason.cause.lower()).strip("-") or reason.kind
        return cls._of(reason.sentence, reason.kind, tensor=tensor, node=node, causes=[cause])

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return str.__str__(self)

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (str(self), vars(self))


def _restored(sentence: str, fields: dict[str, object]) -> Explanation:
    """Undo a copy or a pickle."""
    found: Explanation = str.__new__(Explanation, sentence)
    vars(found).update(fields)
    return found
