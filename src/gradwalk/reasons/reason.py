"""The reason why one ``.grad`` is as it is, and the words that every such sentence needs."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..forward.annotate import Annotated
from .extra_words import at_line

KINDS = {
    "gradient": "Has a gradient",
    "unsure": "Has a gradient, of the loss or of another",
    "elsewhere": "Has a gradient, and no part of the graph of the loss",
    "frozen": "requires_grad is False",
    "cut": "Cut off from the loss",
    "unused": "Not part of the graph of the loss",
    "unknown": "Not part of the graph of the loss, for a reason that is not known",
    "intermediate": "Not a leaf",
    "waiting": "In the graph, and .grad is None",
    "cleared": "None although backward ran",
    "zero": "Zero everywhere",
    "nan": "NaN or infinite",
}
"""The kinds of reasons, in the order in which parameters are listed, and what to head them with."""


@dataclass(frozen=True)
class Reason:
    """Why a ``.grad`` is as it is.

    Attributes:
        kind: One of `KINDS`.
        sentence: The reason with its remedy.
        is_read: Whether the numbers of the gradient were read, where there is one.
    """

    kind: str
    sentence: str
    is_read: bool = True


@dataclass(frozen=True)
class Asked:
    """What was asked about, and what to call it in a sentence.

    Attributes:
        tensor: The tensor.
        name: What the user calls it; None where that is not known.
    """

    tensor: torch.Tensor
    name: str | None

    @property
    def start(self) -> str:
        """What to call it where a sentence starts."""
        return self.name or "This tensor"

    @property
    def within(self) -> str:
        """What to call it within a sentence."""
        return self.name or "it"

    def attribute(self, what: str) -> str:
        """An attribute or call of it, as code where it has a name: "w.grad"."""
        return f"{self.name}.{what}" if self.name else what

    @property
    def its_grad(self) -> str:
        """Its ``.grad``, where a sentence starts."""
        return f"{self.name}.grad" if self.name else "The .grad of this tensor"


def operation(captured: Annotated, node: int) -> str:
    """An operation of a graph in words, with its name and the line that made it."""
    data = captured.graph.nodes[node]
    seen = captured.annotations.get(node)
    name = f", {data['name']}" if data["name"] else ""
    return f"{data['op']} (node {node}{name}{at_line(seen.source if seen else None)})"
