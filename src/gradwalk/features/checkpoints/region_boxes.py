"""Boxes for checkpointed regions, among those of modules."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...graph.module_paths import ancestors, common_ancestor
from ...graph.names import Names
from ...tracing.annotate import Annotated
from ...tracing.checkpoint_regions import Order, Region


@dataclass(frozen=True)
class RegionBoxes:
    """The boxes of regions among those of modules.

    Attributes:
        regions: The regions; one with unknown ends covers the module that runs again.
        boxes: The namespace of each region's box; None for a single operation, or if the region
            has only some of a module's operations.
        spaces: Node id -> namespace, of the nodes whose namespace gets a part for a region.
        modules: Namespace -> the same module's namespace without those parts.
    """

    regions: list[Region]
    boxes: list[str | None]
    spaces: dict[int, str]
    modules: dict[str, str]


def boxes_of_regions(
    captured: Annotated, names: Names, inferred: Mapping[int, str], boxes: Mapping[int, str]
) -> RegionBoxes:
    """Find a box for each region of a graph.

    ``inferred``: node id -> namespace, where these are inferred; empty where they were watched.
    ``boxes``: node id -> the box that it is in outside of modules.
    """
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
    """The regions, those whose ends are not known grown to the module that runs again.

    ``paths``: ``id`` of a module -> its namespace.
    """
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
        """Begin with all nodes where they are.

        ``spaces``: node id -> namespace.
        """
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
        waiting = list(paths)
        for path in waiting:  # grows while we walk
            yield from self._at[path]
            waiting += self._inner[path]

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
