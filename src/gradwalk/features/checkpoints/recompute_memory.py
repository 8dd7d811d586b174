"""The bytes that a checkpointed region saves until backward.

Nothing is run to count them. The graph knows which operation made each tensor that would have been
saved. So each memory counts once, and weights and inputs, which live anyway, do not count. Memory
of unknown origin is left out; the number is then a lower bound.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from ...graph.attributes import Place
from ...graph.capture import Capture
from ...graph.pass_through import VIEWS
from ...torch_api.checkpoints import Sizes, frame_of, has_policy, inputs_of, packed_tensors
from ...torch_api.nodes import outputs_metadata
from ...torch_api.reading import storage_id
from ...tracing.checkpoint_regions import Region

_RESULT = re.compile(r"result(\d*)$")
_SHARES_MEMORY = VIEWS | {"ExpandBackward0"}


@dataclass(frozen=True)
class NotKept:
    """The memory of a region.

    Attributes:
        bytes: Memory that its operations need for backward and the region does not keep.
        is_all: Whether that is all of it, rather than a lower bound.
        inputs: Bytes of the inputs that it keeps to run again, each memory once.
    """

    bytes: int
    is_all: bool
    inputs: int


def not_kept(captured: Capture, region: Region) -> NotKept | None:
    """Count the bytes that a region saves until backward.

    Args:
        captured: The graph.
        region: A region of it.

    Returns:
        The bytes; None if unknown: for a reentrant region, after backward, and with a selective
        checkpoint policy.
    """
    frame = None if region.frame is None else region.frame()
    if frame is None or is_chosen(region):
        return None
    inside = _Inside(captured, region.nodes)
    handed_on = set(inside.handed_on())
    made: dict[Place, int] = {}
    is_all = True
    for needed in inside.needed():
        base = inside.memory_of(needed.place) if needed.place is not None else None
        if needed.place is None:
            is_all = False
        elif base is not None and base not in handed_on and base not in made:
            size = _size(captured, base)
            if size is None and base == needed.place:
                size = needed.size
            is_all = is_all and size is not None
            made[base] = size or 0
    return NotKept(sum(made.values()), is_all, _held(inputs_of(frame)))


def is_chosen(region: Region) -> bool:
    """Whether a selective checkpoint policy chooses what a region keeps."""
    frame = None if region.frame is None else region.frame()
    return frame is not None and has_policy(frame)


@dataclass(frozen=True)
class _Needed:
    """A tensor that an operation would have saved: its producer, if known, and its bytes."""

    place: Place | None
    size: int | None


class _Inside:
    """The operations of a region, and the producers of their inputs' and outputs' memory."""

    def __init__(self, captured: Capture, nodes: Sequence[int]) -> None:
        self._captured, self._order, self._nodes = captured, nodes, set(nodes)
        self._data = captured.attributes
        self._following, self._before = captured.successors, captured.predecessors

    def needed(self) -> Iterator[_Needed]:
        """Yield the tensors that the operations would have saved, without leaves."""
        sizes: dict[int, Sizes] = {}
        for i in self._order:
            node = self._captured.nodes[i]
            frame = frame_of(node)
            if frame is None:
                continue
            noted = sizes.setdefault(id(frame), Sizes(frame))
            takes = dict(self._taken_by(i))
            for name, packed in packed_tensors(node):
                about = noted.of(packed)
                if about is None:  # a missing operand, or one that was not packed
                    continue
                result = _RESULT.match(name)
                place = (i, int(result[1] or 0)) if result else takes.get(name)
                yield _Needed(place, math.prod(about[0]) * about[1].itemsize)

    def handed_on(self) -> Iterator[Place]:
        """The memory of the region's outputs, which lives anyway."""
        taken = [(root, nr) for root, nr in self._captured.roots if root in self._nodes]
        for i in self._nodes:
            for source, between in self._before[i].items():
                if source not in self._nodes:
                    taken += [(i, edge["output_nr"]) for edge in between.values()]
        for place in taken:
            base = self.memory_of(place)
            if base is not None:
                yield base

    def memory_of(self, place: Place) -> Place | None:
        """The producer of a tensor's memory; None if it came into the region."""
        while place[0] in self._nodes:
            if self._data[place[0]]["op"] not in _SHARES_MEMORY:
                return place
            taken = [place for _, place in self._taken_by(place[0])]
            if len(taken) != 1:
                return None
            place = taken[0]
        return None

    def _taken_by(self, node: int) -> list[tuple[str | None, Place]]:
        """List the arguments of an operation, with the output behind each."""
        return [
            (edge["argument"], (target, edge["output_nr"]))
            for target, between in self._following[node].items()
            for edge in between.values()
        ]


def _size(captured: Capture, place: Place) -> int | None:
    """The bytes of an output of a node; None if unknown."""
    node, nr = place
    outputs = outputs_metadata(captured.nodes[node])
    if nr >= len(outputs):
        return None
    if outputs[nr].device.type == "meta":
        return 0
    return int(math.prod(outputs[nr].shape) * outputs[nr].dtype.itemsize)


def _held(tensors: Iterable[torch.Tensor]) -> int:
    """The bytes of some tensors, each memory once."""
    storages = {storage_id(tensor): tensor for tensor in tensors}
    return sum(
        tensor.untyped_storage().nbytes()
        for storage, tensor in storages.items()
        if storage is not None and tensor.device.type != "meta"
    )
