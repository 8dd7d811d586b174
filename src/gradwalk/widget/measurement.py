"""The measured time and bytes of each node of a graph."""

from __future__ import annotations

from dataclasses import dataclass

from ..amounts import Bytes
from ..result import returned_by


@returned_by("GraphWidget(loss).measure()")
@dataclass(frozen=True)
class NodeMeasure:
    """What one node took.

    Attributes:
        node: Its id.
        op: Its class.
        module: Its module, "layers.0"; "" outside of any or if unknown.
        bytes: Bytes that it holds for backward, and nothing else does.
        seconds: Its time in backward, with what the engine does after it; the mean of the three
            fastest of seven passes. A recomputation is in the node that asks for it first.
    """

    node: int
    op: str
    module: str
    bytes: Bytes
    seconds: float

    def __str__(self) -> str:
        place = f" in {self.module}" if self.module else ""
        return f"{1e3 * self.seconds:.3f} ms, {self.bytes}: {self.op} (node {self.node}){place}"


@returned_by("GraphWidget(loss).measure()")
@dataclass(frozen=True)
class Measurement:
    """The bytes and the time of each node, measured.

    Attributes:
        nodes: One entry for each node that ran, the slowest first.
        wall: Seconds of the whole backward pass, the mean of the same three.
        bytes: Bytes that the graph holds for backward.
    """

    nodes: tuple[NodeMeasure, ...]
    wall: float
    bytes: Bytes

    def __str__(self) -> str:
        most = 10
        lines = [f"backward {1e3 * self.wall:.3f} ms, {self.bytes} held", *self.nodes[:most]]
        return "\n".join(map(str, lines))
