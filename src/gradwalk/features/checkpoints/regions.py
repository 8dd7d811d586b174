"""Checkpointed regions: their boxes among modules, and the bytes each one saves until backward.

Nothing is run to count them. The graph knows which operation made each tensor that would have been
saved. So each memory counts once, and weights and inputs, which live anyway, do not count. Memory
of unknown origin is left out; the number is then a lower bound.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from ...graph.adjacency import walk
from ...graph.capture import Capture, OutputKey
from ...graph.labels import VIEWS, in_bytes
from ...graph.names import Names, ancestors, common_ancestor
from ...schema.graph import CheckpointModel
from ...sources.live_drawing import Regions
from ...torch_api.checkpoints import frame_of, has_policy, inputs_of, packed_sizes, packed_tensors
from ...torch_api.nodes import outputs_metadata
from ...torch_api.reading import storage_id
from ...torch_api.saved_tensors import data_of
from ...tracing.annotate import Annotated
from ...tracing.checkpoint_regions import Order, Region, innermost


@dataclass(frozen=True)
class RegionBoxes:
    """The boxes of regions among those of modules."""

    regions: list[Region]  # the regions; one with unknown ends covers the module that runs again
    # The namespace of each region's box; None for a single operation, or if the region has only
    # some of a module's operations.
    boxes: list[str | None]
    # Node id -> namespace, of the nodes whose namespace gets a part for a region.
    spaces: dict[int, str]
    modules: dict[str, str]  # namespace -> the same module's namespace without those parts


def boxes_of_regions(
    captured: Annotated, names: Names, inferred: Mapping[int, str], boxes: Mapping[int, str]
) -> RegionBoxes:
    """Find a box for each region; ``inferred``: node id -> namespace, empty if watched."""
    nodes = captured.drawn.nodes
    seen = {i: space for i, space in nodes(data="namespace") if space is not None}
    operations = [i for i, kind in nodes(data="kind") if kind == "op"]
    tree = Tree({**seen, **inferred, **boxes}, operations)
    regions = list(captured.regions)
    if inferred and not all(region.is_exact for region in regions):
        # Truth would ask a module for its length, which a compiled module refuses.
        alive = (
            (path, module) for path, ref in names.modules.items() if (module := ref()) is not None
        )
        paths = {id(module): path.replace(".", "/") for path, module in alive}
        regions = _with_modules(regions, paths, tree, Order(captured))
    return region_boxes(regions, tree)


def _with_modules(
    regions: list[Region], paths: Mapping[int, str], tree: Tree, order: Order
) -> list[Region]:
    """Grow regions with unknown ends to the module that runs again; ``paths``: by ``id``."""
    regions = list(regions)
    taken: Counter[int] = Counter(i for region in regions for i in region.nodes)
    for number in reversed(range(len(regions))):  # inner regions first
        region = regions[number]
        module = None if region.module is None else region.module()
        nodes = region.nodes
        if module is not None and not region.is_exact and id(module) in paths:
            belongs = tree.operations_in(paths[id(module)])
            nodes = order.extended(nodes, {i for i in belongs if not taken[i]})
        if region.parent is not None:
            parent = regions[region.parent]
            taken.update(set(nodes) - set(parent.nodes))
            both = order.between({*parent.nodes, *nodes})
            regions[region.parent] = replace(parent, nodes=both)
        taken.update(set(nodes) - set(region.nodes))
        regions[number] = replace(region, nodes=nodes)
    return regions


def region_boxes(regions: list[Region], tree: Tree) -> RegionBoxes:
    """Find a box for each region: the box of the module with the same operations, or a new one.

    Example:
        >>> region = Region((1, 2), None, False, True, "f", None, None)
        >>> tree = Tree({0: "", 1: "a", 2: "b", 3: "b/c"}, [0, 1, 2])
        >>> region_boxes([region], tree).spaces
        {1: 'checkpoint f()/a', 2: 'checkpoint f()/b', 3: 'checkpoint f()/b/c'}
    """
    boxes: list[str | None] = []
    taken: set[str] = set()
    for region, title in zip(regions, _titles(regions), strict=True):
        box = tree.box_of(region.nodes, title, taken)
        boxes.append(box)
        if box is not None:
            taken.add(box)
    changed = {i: tree.space[i] for i in sorted(tree.moved)}
    return RegionBoxes(regions, boxes, changed, _modules(changed.values(), taken))


class Tree:
    """Nodes in namespaces, while some are moved.

    Attributes:
        space: Node id -> namespace.
        moved: The nodes that were moved.
    """

    def __init__(self, spaces: Mapping[int, str], operations: Collection[int]) -> None:
        """Begin with all nodes where they are; ``spaces``: node id -> namespace."""
        self.space: dict[int, str] = {}
        self.moved: set[int] = set()
        self._operations = set(operations)
        self._at: dict[str, set[int]] = defaultdict(set)  # the nodes right in a namespace
        self._inner: dict[str, set[str]] = defaultdict(set)  # the namespaces right below one
        self._count: Counter[str] = Counter()  # the operations in a namespace and below it
        for node, space in {**dict.fromkeys(operations, ""), **spaces}.items():
            self._put(node, space)

    def operations_in(self, path: str) -> Iterator[int]:
        """The operations in a namespace and below it."""
        return (node for node in self._in([path]) if node in self._operations)

    def _in(self, paths: Iterable[str]) -> Iterator[int]:
        for path in walk(paths, self._inner.__getitem__):
            yield from self._at[path]

    def box_of(self, nodes: Sequence[int], title: str, taken: Collection[str]) -> str | None:
        """Return the box of a region; if it is new, move the operations into it."""
        if len(nodes) < 2:  # a box of one operation is not drawn
            return None
        common = common_ancestor((self.space[i] for i in nodes), "/")
        alike = (p for p in reversed(ancestors(common, "/")) if self._count[p] == len(nodes))
        own = next((path for path in alike if path and path not in taken), None)
        if own is not None:
            return own
        within = _by_part(nodes, self.space, common)
        if any(self._count[path] != count for path, count in within.items()):
            return None  # it cuts through a module
        moving = {i for i in nodes if self.space[i] == common}.union(self._in(within))
        box = "/".join(filter(None, (common, title)))
        for node in moving:
            below = self.space[node].removeprefix(common).strip("/")
            self._take(node)
            self._put(node, f"{box}/{below}" if below else box)
        self.moved |= moving
        return box

    def _put(self, node: int, space: str) -> None:
        self.space[node] = space
        self._at[space].add(node)
        for each in ancestors(space, "/"):
            self._count[each] += node in self._operations
            if each:
                self._inner[each.rpartition("/")[0]].add(each)

    def _take(self, node: int) -> None:
        self._at[self.space[node]].discard(node)
        for each in ancestors(self.space[node], "/"):
            self._count[each] -= node in self._operations


def _modules(spaces: Iterable[str], boxes: Collection[str]) -> dict[str, str]:
    found = {}
    for space in {each for path in spaces for each in ancestors(path, "/")}:
        path = ""
        plain = []
        for part in space.split("/"):
            path = f"{path}/{part}" if path else part
            if path not in boxes or not part.startswith(_TITLE):
                plain.append(part)
        if space and space not in boxes:
            found[space] = "/".join(plain)
    return found


_TITLE = "checkpoint "


def _titles(regions: Sequence[Region]) -> Iterator[str]:
    """The last part of the namespace of each region's own box, which no module has."""
    times = Counter(region.called for region in regions)
    seen: Counter[str | None] = Counter()
    for region in regions:
        seen[region.called] += 1
        place = f"{seen[region.called]} " if times[region.called] > 1 else ""
        yield f"{_TITLE}{place}{(region.called or '').replace('/', '|')}()"


def _by_part(nodes: Iterable[int], spaces: Mapping[int, str], common: str) -> Counter[str]:
    """How many of some operations lie in each of the namespaces right below one."""
    found: Counter[str] = Counter()
    for node in nodes:
        below = spaces[node].removeprefix(common).strip("/")
        if below:
            found["/".join(filter(None, (common, below.partition("/")[0])))] += 1
    return found


def drawn_regions(
    captured: Annotated, names: Names, inferred: Mapping[int, str], boxes: Mapping[int, str]
) -> Regions:
    """Describe the checkpointed regions of a graph; no part of the program runs."""
    found = boxes_of_regions(captured, names, inferred, boxes)
    models: list[CheckpointModel] = []
    for region, box in zip(found.regions, found.boxes, strict=True):
        memory = not_kept(captured, region)
        size = None if memory is None else memory.bytes
        is_all = memory is not None and memory.is_all and region.is_exact
        inputs = None if memory is None else memory.inputs
        about = _about(region, size, inputs, is_all=is_all)
        saves = f"saves {'' if is_all else 'at least '}{in_bytes(size)}" if size else ""
        models.append({"parent": region.parent, "box": box, "saves": saves, "about": about})
    return Regions(models, innermost(found.regions), found.spaces, found.modules)


def _about(region: Region, size: int | None, inputs: int | None, *, is_all: bool) -> str:
    """Describe a checkpointed region in backward; ``inputs`` are the bytes that it keeps."""
    who = region.called or "this part"
    if region.is_reentrant:
        return (
            f"Checkpointed with use_reentrant=True: this node keeps what went into {who}, and its "
            f"backward runs {who} forward again, then a backward pass of its own through it. Its "
            "operations are not in the graph before that, so what they would keep is not known."
        )
    nested = "" if region.parent is None else " The checkpointed part around it runs again first."
    found = [f"Checkpointed: {who} runs forward again when backward gets here.{nested}"]
    if is_chosen(region):
        found.append(
            "The program chooses what is kept all the same (context_fn), so what the rest would "
            "take is not known."
        )
    elif size:
        instead = f" (it keeps its inputs, {in_bytes(inputs)})" if inputs else ""
        least = "" if is_all else "at least "
        found.append(
            f"So {least}{in_bytes(size)} that its operations make and need for backward are not "
            f"kept until then{instead}."
        )
    if not region.is_exact:
        found.append(
            "Where it begins and ends is inferred: an operation that saves nothing tells only "
            "under watch() whether it belongs to it."
        )
    return " ".join(found)


_RESULT = re.compile(r"result(\d*)$")
_SHARES_MEMORY = VIEWS | {"ExpandBackward0"}


@dataclass(frozen=True)
class NotKept:
    """The memory of a region."""

    bytes: int  # memory that its operations need for backward and the region does not keep
    is_all: bool  # whether that is all of it, rather than a lower bound
    inputs: int  # bytes of the inputs that it keeps to run again, each memory once


def not_kept(captured: Capture, region: Region) -> NotKept | None:
    """Count the bytes that a region saves until backward; None if unknown."""
    frame = None if region.frame is None else region.frame()
    if frame is None or is_chosen(region):
        return None
    inside = _Inside(captured, region.nodes)
    handed_on = set(inside.handed_on())
    made: dict[OutputKey, int] = {}
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

    place: OutputKey | None
    size: int | None


class _Inside:
    """The operations of a region, and the producers of their inputs' and outputs' memory."""

    def __init__(self, captured: Capture, nodes: Sequence[int]) -> None:
        self._captured, self._order, self._nodes = captured, nodes, set(nodes)
        self._data = captured.attributes
        self._following, self._before = captured.successors, captured.predecessors

    def needed(self) -> Iterator[_Needed]:
        """Yield the tensors that the operations would have saved, without leaves."""
        sizes = functools.cache(packed_sizes)
        for i in self._order:
            node = self._captured.nodes[i]
            frame = frame_of(node)
            if frame is None:
                continue
            takes = dict(self._taken_by(i))
            for name, packed in packed_tensors(node):
                about = sizes(frame).get(id(data_of(packed)))
                if about is None:  # a missing operand, or one that was not packed
                    continue
                result = _RESULT.match(name)
                place = (i, int(result[1] or 0)) if result else takes.get(name)
                yield _Needed(place, math.prod(about[0]) * about[1].itemsize)

    def handed_on(self) -> Iterator[OutputKey]:
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

    def memory_of(self, place: OutputKey) -> OutputKey | None:
        """The producer of a tensor's memory; None if it came into the region."""
        while place[0] in self._nodes:
            if self._data[place[0]]["op"] not in _SHARES_MEMORY:
                return place
            taken = [place for _, place in self._taken_by(place[0])]
            if len(taken) != 1:
                return None
            place = taken[0]
        return None

    def _taken_by(self, node: int) -> list[tuple[str | None, OutputKey]]:
        """List the arguments of an operation, with the output behind each."""
        return [
            (edge["argument"], (target, edge["output_nr"]))
            for target, between in self._following[node].items()
            for edge in between.values()
        ]


def _size(captured: Capture, place: OutputKey) -> int | None:
    """The bytes of an output of a node; None if unknown."""
    node, nr = place
    outputs = outputs_metadata(captured.nodes[node])
    if nr >= len(outputs) or outputs[nr].device is None:
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
