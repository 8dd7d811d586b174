"""Findings, and the memory held for backward."""

from __future__ import annotations

from typing import Literal, TypedDict

from .values import AutogradNodeId, Count, NodeId, RealNumber

FindingKind = Literal[
    "vanishing",
    "exploding",
    "dead",
    "nan",
    "no-grad",
    "cut",
    "memory",
    "held",
    "no-backward",
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
    "softmax-twice",
    "sigmoid-twice",
    "no-log-probabilities",
    "target",
    "large",
    "cleared",
    "freed",
    "not-a-leaf",
    "backward-failed",
    "shared-module",
    "unused-backward",
    "changed-gradient",
    "repeated-index",
    "constant-term",
    "scaled",
    "padding",
    "dominated",
    "mixed-rows",
    "shared-memory",
    "alike",
    "step",
    "counting",
    "recomputed",
    "unused-result",
    "unused-on-rank",
    "not-reduced",
    "drifted",
    "nan-on-rank",
    "large-on-rank",
    "not-alike",
    "same-batch",
    "ranks",
]
"""The kind of a finding; docs/reference/findings.md explains each."""

Severity = Literal["error", "warning", "info"]


class FindingModel(TypedDict):
    """A possible problem of the graph or its gradients, with its evidence."""

    kind: FindingKind
    severity: Severity
    nodes: list[NodeId]
    message: str
    """Whole sentences, with the numbers."""
    numbers: list[NumberModel]
    module: str | None
    """The path of the module it is about. User text. Files before version 19 lack it."""
    line: str | None
    """Such as "train.py:12"."""


class NumberModel(TypedDict):
    """A number that supports a finding, and its name."""

    name: str
    value: RealNumber


class MemoryModel(TypedDict):
    """The bytes held for backward; nodes without any are omitted."""

    nodes: list[AutogradNodeId]
    bytes: list[Count]
    """One per entry of ``nodes``."""
    total: Count
    unknown: Count
    """Number of tensors of unknown size."""
