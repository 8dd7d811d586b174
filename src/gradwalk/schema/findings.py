"""What was found, and the memory held for backward."""

from __future__ import annotations

from typing import Literal, TypedDict

from .values import AutogradNodeId, Count, NodeId, RealNumber

FindingKind = Literal[
    "vanishing",
    "exploding",
    "dead",
    "nan",
    "no grad",
    "cut",
    "memory",
    "no backward",
    "failed",
    "zero",
    "frozen",
    "leaf",
    "unregistered",
    "tied",
    "optimizer",
    "accumulated",
    "clipped",
    "changed",
    "eval",
    "broadcast",
    "softmax twice",
    "sigmoid twice",
    "no log probabilities",
    "target",
    "large",
    "cleared",
    "freed",
    "not a leaf",
    "dominated",
    "unused on a rank",
    "not reduced",
    "drifted",
    "nan on a rank",
    "large on a rank",
    "not alike",
    "same batch",
    "ranks",
]
"""What is wrong, or only worth knowing; docs/findings.md explains each."""

Severity = Literal["error", "warning", "info"]


class FindingModel(TypedDict):
    """Something about the graph or its gradients that may be wrong, and the numbers it rests on."""

    kind: FindingKind
    severity: Severity
    nodes: list[NodeId]
    message: str
    """Whole sentences, with the numbers they rest on."""
    numbers: list[NumberModel]


class NumberModel(TypedDict):
    """A number that a finding rests on, and what it is."""

    name: str
    value: RealNumber


class MemoryModel(TypedDict):
    """The bytes held for backward; nodes and namespaces that hold none are left out.

    ``nodes`` and ``bytes`` are aligned, and so are ``namespaces`` and ``namespace_bytes``, which
    counts the nodes directly in a namespace. ``unknown`` is how many tensors have an unknown size.
    """

    nodes: list[AutogradNodeId]
    bytes: list[Count]
    """One per entry of ``nodes``."""
    namespaces: list[str]
    namespace_bytes: list[Count]
    """One per entry of ``namespaces``: of the nodes directly in it."""
    total: Count
    unknown: Count
    """How many tensors have an unknown size."""
