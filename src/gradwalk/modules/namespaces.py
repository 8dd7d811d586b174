"""Which module each node belongs to, inferred from the names of the parameters alone.

The operations that consume a module's parameters are certain. The program ran in a known order, and
the calls of modules nest, so what lies between two certain operations belongs to the modules that
are left between them, then to the module around both, then to those that are entered. Where one
ends and the next begins is told by how torch's own layers work, by what an operation takes (a
module sees its own values and its inputs), and by what modules of one kind have in common.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from ..forward.annotate import Annotated
from ..graph.adjacency import predecessors
from ..graph.capture import Capture
from ..graph.names import Names
from .module_edges import Edges, End, Gap
from .module_tree import ModuleTree, ancestors, common_ancestor
from .program_order import Program, module_of, read_program


def infer_namespaces(captured: Capture, modules: Mapping[str, str] | None = None) -> dict[int, str]:
    """The module that each node of a graph belongs to, without having seen the forward pass.

    Args:
        captured: The graph, with the parameters' dotted names, as ``names=model`` gives them.
        modules: The classes of the modules by dotted path, as `module_classes` gives them, when
            they are known. Modules without parameters (``nn.ReLU``) can be told only with them, or
            by their numbers in a sequence.

    Returns:
        Node id -> "encoder/layers/0/linear1"; "" for what belongs to no module or to the outermost
        one. Parameters are in the module that owns them, other leaves where they are used.

    Example::

        >>> import torch
        >>> from gradwalk.graph.names import read_names
        >>> from gradwalk.graph.capture import capture_nodes
        >>> from gradwalk.graph.outputs import read_outputs
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
        >>> outputs = read_outputs((net(torch.ones(1, 2)).sum(),), "capture")
        >>> captured = capture_nodes(outputs, read_names(net, "capture"))
        >>> [(captured.graph.nodes[i]["op"], space)
        ...     for i, space in infer_namespaces(captured).items()][:3]
        [('SumBackward0', ''), ('AddmmBackward0', '1'), ('AccumulateGrad', '1')]
    """
    program = read_program(captured.graph)
    tree = ModuleTree(program.parameters.values(), program.ops_by_owner(), modules)
    gaps = _gaps(program, tree)
    found: list[str] = [owner or "" for owner in program.owners]
    _share_out(program, tree, gaps, found)
    _give_to_children(program, tree, found)
    by_node = dict(zip(program.nodes, found, strict=True))
    names = set(program.parameters.values())
    takers = predecessors(captured.graph)
    for node in captured.graph:
        if node in program.parameters:
            by_node[node] = module_of(program.parameters[node], names)
        elif node not in by_node:
            users = [by_node[user] for user in takers[node] if user in by_node]
            by_node[node] = common_ancestor(users) if users else ""
    return {node: by_node[node].replace(".", "/") for node in captured.graph}


def inferred_namespaces(captured: Annotated, names: Names) -> dict[int, str]:
    """Where no `watch` saw the modules, and the leaves' names tell of some: `infer_namespaces`.

    Args:
        captured: The graph.
        names: What the user calls tensors and modules.

    Returns:
        Node id -> namespace; empty where modules were watched or none is known.
    """
    if not names.modules or any(space for _, space in captured.drawn.nodes(data="namespace")):
        return {}
    found = infer_namespaces(captured, names.modules)
    return found if any(found.values()) else {}


def _gaps(program: Program, tree: ModuleTree) -> list[Gap]:
    """What lies between each two operations in a row that consume parameters."""
    certain = [place for place, owner in enumerate(program.owners) if owner is not None]
    gaps: list[Gap] = []
    began: dict[str, int] = {}
    open_entries: dict[str, list[tuple[Gap, int]]] = {}
    used: dict[str, set[int]] = defaultdict(set)
    _find_lists(program, tree, certain)
    for before, after in zip([None, *certain], [*certain, None], strict=True):
        was = program.owners[before] if before is not None else None
        now = program.owners[after] if after is not None else None
        home = common_ancestor([path for path in (was, now) if path is not None] or [""])
        if was is None or now is None:
            home = ""
        elif was == now and after is not None and _is_next_call(program, tree, used, now, after):
            home = now.rpartition(".")[0]
        gap = Gap(0 if before is None else before + 1, after or len(program.ops), home)
        if after == 0:
            gap.last = 0
        for path in _below(was, home):
            gap.left.append((path, began.pop(path, gap.first)))
            used[path].clear()
            for entry, at in open_entries.pop(path, ()):
                entry.entered[at] = (path, gap.first - 1)
        for path in reversed(_below(now, home)):
            began[path] = gap.last
            gap.entered.append((path, len(program.ops)))
            open_entries.setdefault(path, []).append((gap, len(gap.entered) - 1))
        if now is not None and after is not None:
            used[now].update(_own_leaves(program, after))
        gaps.append(gap)
    return gaps


def _below(path: str | None, home: str) -> list[str]:
    """The modules from one outwards to the one that is no longer within ``home``."""
    if path is None:
        return []
    around = ancestors(path)
    return around[: around.index(home)]


def _own_leaves(program: Program, place: int) -> list[int]:
    return [leaf for leaf in program.leaves[place] if leaf in program.parameters]


def _is_next_call(
    program: Program, tree: ModuleTree, used: Mapping[str, set[int]], path: str, place: int
) -> bool:
    """Whether a layer that torch wrote is called once more, and not still running."""
    if tree.kind(path) != "standard" or tree.is_recurrent(path):
        return False
    return any(leaf in used[path] for leaf in _own_leaves(program, place))


def _find_lists(program: Program, tree: ModuleTree, certain: Sequence[int]) -> None:
    """Numbered modules that others run between are in a list: a sequence runs at one go."""
    furthest: dict[str, int] = {}
    was: list[str] = []
    for place in certain:
        owner = program.owners[place] or ""
        now = ancestors(owner)
        for path in now[1:]:
            if tree.kind(path) != "sequence":
                continue
            child = owner[len(path) + 1 if path else 0 :].partition(".")[0]
            number = int(child) if child.isdigit() else 0
            if path in furthest and path not in was and number > furthest[path]:
                tree.note_list(path)
            furthest[path] = max(number, furthest.get(path, -1)) if path in was else number
        was = now


def _share_out(program: Program, tree: ModuleTree, gaps: list[Gap], found: list[str]) -> None:
    """Give what lies between to the modules that are left, entered, or around."""
    edges = Edges(program, tree)
    low = {id(gap): gap.first for gap in gaps}
    high = {id(gap): gap.last for gap in gaps}

    def rounds(step: Callable[[list[Gap], int], None], of: Callable[[Gap], int]) -> None:
        for depth in range(max(map(of, gaps), default=0)):
            step([gap for gap in gaps if of(gap) > depth], depth)

    def leave(some: list[Gap], depth: int) -> None:
        exits = [End(*gap.left[depth], low[id(gap)], high[id(gap)], gap) for gap in some]
        for gap, own in zip(some, edges.tails(exits), strict=True):
            start = low[id(gap)]
            low[id(gap)] += len(own)
            found[start : low[id(gap)]] = own

    def enter(some: list[Gap], depth: int) -> None:
        entries = [End(*gap.entered[-1 - depth], low[id(gap)], high[id(gap)], gap) for gap in some]
        for gap, own in zip(some, edges.heads(entries), strict=True):
            end = high[id(gap)]
            high[id(gap)] -= len(own)
            found[high[id(gap)] : end] = own

    late = [gap for gap in gaps if gap.entered and tree.computes_first(gap.entered[-1][0])]
    enter(late, 0)
    rounds(leave, lambda gap: len(gap.left))
    rounds(enter, lambda gap: len(gap.entered))
    for gap in gaps:
        first, last = low[id(gap)], high[id(gap)]
        if first < last:
            found[first:last] = edges.rest(gap, first, last)


def _give_to_children(program: Program, tree: ModuleTree, found: list[str]) -> None:
    """Give operations to the modules without parameters that run them, where these are known."""
    if not tree.classes:
        return
    turn: dict[tuple[str, tuple[str, ...]], int] = defaultdict(int)
    children: dict[str, list[str]] = {}
    for place, path in enumerate(found):
        if program.owners[place] is not None or tree.kind(path) != "custom":
            continue
        if path not in children:
            prefix = f"{path}." if path else ""
            children[path] = [prefix + child for child in tree.without_parameters(path)]
        op, constant = program.ops[place], program.constants[place]
        fitting = tuple(child for child in children[path] if tree.runs(child, op, constant))
        if fitting:
            found[place] = fitting[turn[path, fitting] % len(fitting)]
            turn[path, fitting] += 1
