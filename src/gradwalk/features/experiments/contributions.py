"""`contributions`: split a gradient into parts by their source."""

from __future__ import annotations

import functools
import heapq
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch

from ...backward.recorded_pass import RecordedPass
from ...graph.adjacency import predecessors
from ...graph.capture import EdgeKey, OutputKey, capture_nodes
from ...graph.labels import label
from ...graph.names import Names, caller_names
from ...graph.outputs import Output, read_outputs
from ...result import make, returned_by
from ...schema.what_if import ShareModel
from ...torch_api.dtensors import own_part
from ...torch_api.modes import grad_mode_kept, unseen
from ...torch_api.reading import is_plain
from ...types import Outputs
from .experiment import Experiment, called, find_place
from .replay import Edits, Flow, Gradient, Replay

MOST_SHARES = 50  # the largest number of edges of a node for which shares are computed

_LARGEST = 2**24  # the largest number of values read for one node


def shares(recorded: RecordedPass, node: int) -> list[ShareModel]:
    """Return the share of each edge in a node's incoming gradient; empty if unknown."""
    graph, steps = recorded.graph, recorded.run.steps
    edges = [
        (consumer, edge["arg_nr"])
        for consumer, into in predecessors(graph)[node].items()
        for edge in into.values()
        if edge["output_nr"] == 0
    ]
    step = steps.get(node)
    if step is None or not 1 < len(edges) <= MOST_SHARES or len(step.grad_outputs) != 1:
        return []
    (arrived,) = step.grad_outputs
    whole = None if arrived is None else arrived.tensor
    # A freed tensor has no numbers, and one sharded over ranks needs communication.
    if whole is None or not is_plain(whole):
        return []
    if whole.numel() * len(edges) > _LARGEST or not whole.numel():
        return []
    found: list[ShareModel] = []
    for consumer, arg_nr in edges:
        kept = steps[consumer].grad_inputs[arg_nr] if consumer in steps else None
        if kept is None:
            continue  # None flowed there
        if kept.tensor is None or own_part(kept.tensor) is not None:
            return []
        part = kept.tensor.sum_to_size(whole.shape)
        edge = {"consumer": consumer, "arg_nr": arg_nr, "label": label(graph.nodes[consumer])}
        found.append({**edge, "share": along(part, whole)})  # type: ignore[typeddict-item]
    square = along(whole, whole)
    if not square or not torch.isfinite(torch.tensor(square)):
        return []
    for each in found:
        each["share"] /= square
    if abs(sum(each["share"] for each in found) - 1) > 1e-3:
        return []
    return sorted(found, key=lambda each: -abs(each["share"]))


def along(part: torch.Tensor, whole: torch.Tensor) -> float:
    """Return the real inner product of two gradients."""
    dtype = torch.complex128 if whole.is_complex() else torch.float64
    first, second = (
        (each if each.layout is torch.strided else each.to_dense()).to(dtype).flatten()
        for each in (part, whole)
    )
    return float(torch.real(torch.vdot(first, second)))


By = Literal["edge", "output", "path", "sample"]

_MOST_PATHS = 8  # the largest number of separate paths
_MOST_SPLITS = 256  # gradients that are split up in search of them
_MOST_NAMED = 6  # nodes of a path


@returned_by("contributions(tensor, loss)")
@dataclass(frozen=True)
class Contribution:
    """One part of a gradient.

    Attributes:
        label: Its source: "out → h", "loss", "sample 3".
        gradient: The part, in the shape of the gradient.
        share: Its share of the gradient, along the gradient's direction; for a single number, part
            divided by whole. Shares sum to 1, or are all 0 for a zero gradient. A part in the
            opposite direction is negative.
        edges: The (consumer, arg_nr) of its path, from the output on; without paths, only those
            at the tensor.
    """

    label: str
    gradient: torch.Tensor
    share: float
    edges: tuple[EdgeKey, ...] = ()


def contributions(
    tensor_or_name: torch.Tensor | str, *outputs: Outputs, by: By = "edge", stacklevel: int = 1
) -> list[Contribution]:
    """Split the gradient of a tensor into its parts.

    No ``.grad`` changes, no hook runs, nothing is freed, and the forward pass does not run again.

    Args:
        tensor_or_name (torch.Tensor | str): A tensor of the graph, or its name.
        *outputs (Outputs): Tensors that require grad, gradient edges or autograd nodes, any number,
            also in lists, tuples and dicts; each of one number.
        by (By, optional): "edge", the operations that took the tensor; "output", which output
            (which loss) made it; "path", the largest ways from an output to the tensor, and all
            others as one; "sample", dimension 0 of the tensors from which the outputs are computed:
            the part that each row of them is to blame for. Torch does not know what a dimension
            means: whatever the first one is, its rows are called samples, so ask where it is the
            batch. Where samples touch each other (batch norm), a part is what came through the
            sample's own row. Default: ``"edge"``.
        stacklevel (int, optional): The frame whose variables give names, as for ``warnings.warn``:
            1 is the caller, and a function that wraps this one passes 2. Default: ``1``.

    Returns:
        The parts, the largest share first. They sum to the gradient. Empty if no gradient
        arrives.

    Raises:
        TypeError: An argument is of the wrong kind.
        ValueError: The tensor is not in the graph, ``by`` is unknown, or the samples are unknown.
        RuntimeError: A node cannot run again; see `gradwalk.what_if`.

    Example::

        >>> import torch
        >>> from gradwalk import contributions
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> for part in contributions(x, x**2 + 2 * x):
        ...     print(part.label, part.gradient.item(), part.share)
        PowBackward0 1 → x 6.0 0.75
        MulBackward0 2 → x 2.0 0.25
    """
    if not isinstance(by, str) or by not in get_args(By):
        choices = ", ".join(map(repr, get_args(By)))
        raise ValueError(f"by was given {by!r}; it is one of {choices}.")
    if not outputs:
        raise ValueError(
            "contributions() was given no output. Give the tensor or its name first, then what "
            "backward starts from, as in contributions('w', loss)."
        )
    names = caller_names(None, "contributions", stacklevel)
    return _contributions(tensor_or_name, read_outputs(outputs, "contributions"), names, by)


@grad_mode_kept
def _contributions(given: Any, outputs: list[Output], names: Names, by: By) -> list[Contribution]:
    with unseen(), torch.no_grad():
        experiment = Experiment(capture_nodes(outputs, names))
        place = find_place(experiment.replay, given, "contributions")
        return parts_of(experiment, place, by)


@dataclass(frozen=True)
class _Share:
    label: str
    gradient: Gradient
    edges: tuple[EdgeKey, ...] = ()


def parts_of(experiment: Experiment, place: OutputKey, by: By) -> list[Contribution]:
    """Return the parts of the gradient at a place, the largest share first."""
    replay = experiment.replay
    above = replay.above([place[0]])
    if by == "output":
        parts = _by_output(experiment, place, above)
    else:
        flow = replay.run(experiment.seeds, only=above, keep=lambda _: True)
        find = {"edge": _by_edge, "path": _by_path, "sample": _by_sample}[by]
        parts = find(experiment, place, flow)
    grads = [part.gradient for part in parts if part.gradient is not None]
    if not grads:
        return []
    whole = _total(grads)
    square = along(whole, whole)
    found = []
    for part in parts:
        if part.gradient is not None:
            share = along(part.gradient, whole) / square if square else 0.0
            found.append(make(Contribution, part.label, part.gradient, share, part.edges))
    return sorted(found, key=lambda part: -abs(part.share))


def _total(grads: Sequence[torch.Tensor]) -> torch.Tensor:
    return functools.reduce(torch.add, grads)


def _by_edge(experiment: Experiment, place: OutputKey, flow: Flow) -> list[_Share]:
    found = [
        _Share(f"backward starts at {experiment.title(place)}", seed)
        for root, seed in experiment.seeds
        if root == place
    ]
    replay = experiment.replay
    name = experiment.title(place)
    for edge in replay.into(place):
        if edge[0] in flow.passed:
            label = f"{called(replay, edge[0])} → {name}"
            found.append(_Share(label, flow.passed[edge[0]][edge[1]], (edge,)))
    return _told_apart(replay, found)


def _told_apart(replay: Replay, parts: list[_Share]) -> list[_Share]:
    """The parts, where those with equal labels get the arguments by which their edges differ."""
    alike: dict[str, list[_Share]] = {}
    for part in parts:
        alike.setdefault(part.label, []).append(part)
    found = []
    taken: set[str] = set()
    for part in parts:
        same = [set(each.edges) for each in alike[part.label]]
        shared = set.intersection(*same)
        is_one_way = len({tuple(node for node, _ in each.edges) for each in alike[part.label]}) == 1
        own = [edge for edge in part.edges if edge not in shared] if len(same) > 1 else []
        words = [_argument(replay, edge, with_node=not is_one_way) for edge in own]
        label = f"{part.label} ({', '.join(words)})" if words else part.label
        count = itertools.count(2)
        unique = label
        while unique in taken:
            unique = f"{label} ({next(count)})"
        taken.add(unique)
        found.append(_Share(unique, part.gradient, part.edges))
    return found


def _argument(replay: Replay, edge: EdgeKey, *, with_node: bool) -> str:
    """The name of an edge's argument: "self", "input 2", "other of MulBackward0"."""
    consumer, nr = edge
    edges = replay.captured.graph.out_edges(consumer, data=True)
    named = next((data["argument"] for *_, data in edges if data["arg_nr"] == nr), None)
    word = named or f"input {nr}"
    return f"{word} of {called(replay, consumer)}" if with_node else word


def _by_output(experiment: Experiment, place: OutputKey, above: set[int]) -> list[_Share]:
    found: list[_Share] = []
    for number, (root, seed) in enumerate(experiment.seeds):
        if root[0] in above:
            flow = experiment.replay.run([(root, seed)], only=above, keep=lambda i: i == place[0])
            arrived = flow.arrived.get(place[0])
            named = experiment.title(root)
            is_again = any(part.label == named for part in found)
            label = f"{named} (output {number})" if is_again else named
            found.append(_Share(label, None if arrived is None else arrived[place[1]]))
    return found


def _by_path(experiment: Experiment, place: OutputKey, flow: Flow) -> list[_Share]:
    """The largest paths: what arrives is split up by where it came from, the largest first."""
    replay = experiment.replay
    done: list[_Share] = []
    number = itertools.count()
    waiting: list[tuple[float, int, tuple[EdgeKey, ...], torch.Tensor]] = []

    def split(
        places: list[OutputKey], way: tuple[EdgeKey, ...], value: torch.Tensor | None
    ) -> None:
        arriving = _arriving(experiment, flow, places)
        for at, edge, grad in arriving:
            whole = value is not None and len(arriving) == 1
            part = value if whole else _along_path(replay, at, grad, way)
            if part is not None and edge is None:
                done.append(_Share(_path_label(replay, way, place), part, way))
            elif part is not None and edge is not None:
                size = -float(torch.linalg.vector_norm(_dense(part)))
                heapq.heappush(waiting, (size, next(number), (edge, *way), part))

    split([place], (), None)
    splits = 0
    while waiting and len(done) < _MOST_PATHS and splits < _MOST_SPLITS:
        _, _, way, value = heapq.heappop(waiting)
        consumer = way[0][0]
        split([(consumer, nr) for nr in range(len(flow.arrived[consumer]))], way, value)
        splits += 1
    if waiting:
        done.append(_Share("all other paths", _total([part for _, _, _, part in waiting])))
    return _told_apart(replay, done)


def _arriving(
    experiment: Experiment, flow: Flow, places: Iterable[OutputKey]
) -> list[tuple[OutputKey, EdgeKey | None, torch.Tensor]]:
    """What flows into some places: where, along which edge (None: backward starts there)."""
    found: list[tuple[OutputKey, EdgeKey | None, torch.Tensor]] = []
    for at in places:
        found += [(at, None, seed) for root, seed in experiment.seeds if root == at]
        for edge in experiment.replay.into(at):
            passed = flow.passed.get(edge[0])
            if passed is not None and (grad := passed[edge[1]]) is not None:
                found.append((at, edge, grad))
    return found


def _dense(grad: torch.Tensor) -> torch.Tensor:
    return grad if grad.layout is torch.strided else grad.to_dense()


def _along_path(
    replay: Replay, start: OutputKey, grad: torch.Tensor, way: tuple[EdgeKey, ...]
) -> Gradient:
    """The gradient that flows along one path only."""
    if not way:
        return grad
    nodes = {consumer for consumer, _ in way}
    edits = Edits()
    edits.cut_edges = {(i, nr) for i in nodes for nr in range(len(replay.following[i]))} - set(way)
    flow = replay.run([(start, grad)], edits, only=nodes, keep=lambda node: node == way[-1][0])
    passed = flow.passed.get(way[-1][0])
    return None if passed is None else passed[way[-1][1]]


def _path_label(replay: Replay, way: tuple[EdgeKey, ...], place: OutputKey) -> str:
    """The nodes of a path, those with names first where there are many."""
    nodes = [consumer for consumer, _ in way] + [place[0]]
    graph = replay.captured.graph
    if len(nodes) > _MOST_NAMED:
        named = [i for i in nodes[1:-1] if graph.nodes[i]["name"]][: _MOST_NAMED - 2]
        nodes = [nodes[0], *named, nodes[-1]]
    return " → ".join(called(replay, i) for i in nodes)


def _by_sample(experiment: Experiment, place: OutputKey, flow: Flow) -> list[_Share]:
    """Per row of what the outputs are made of; what has no such rows is one part."""
    replay = experiment.replay
    starts = _where_rows_are(experiment, place, flow)
    count = _samples(experiment, starts)
    reached = replay.below(at[0] for at, _ in starts) & replay.above([place[0]])
    # Nothing may enter again from above: what it gave is where we start.
    edits = Edits()

    def part(label: str, chosen: Callable[[torch.Tensor], torch.Tensor | None]) -> _Share:
        seeds = [(at, row) for at, grad in starts if (row := chosen(grad)) is not None]
        found = replay.run(seeds, edits, only=reached, keep=lambda node: node == place[0])
        arrived = found.arrived.get(place[0])
        return _Share(label, None if arrived is None else arrived[place[1]])

    def only_row(i: int) -> Callable[[torch.Tensor], torch.Tensor | None]:
        def row(grad: torch.Tensor) -> torch.Tensor | None:
            if grad.dim() == 0 or grad.shape[0] != count:
                return None
            alone = torch.zeros_like(grad)
            alone[i] = grad[i]
            return alone

        return row

    parts = [part(f"sample {i}", only_row(i)) for i in range(count)]
    if any(grad.shape[:1] != (count,) for _, grad in starts):
        others = part("no sample", lambda g: None if g.shape[:1] == (count,) else g)
        parts.append(others)
    return parts


def _where_rows_are(
    experiment: Experiment, place: OutputKey, flow: Flow
) -> list[tuple[OutputKey, torch.Tensor]]:
    """The first gradients on the way from the outputs that are more than one number."""
    replay = experiment.replay
    found: list[tuple[OutputKey, torch.Tensor]] = []
    order: list[int] = []
    known: set[int] = set()

    def meet(at: OutputKey, grad: Gradient) -> None:
        if grad is None or at[0] not in flow.arrived:
            return
        if grad.dim() or at[0] == place[0]:
            found.append((at, grad))
        elif at[0] not in known:
            known.add(at[0])
            order.append(at[0])

    for root, seed in experiment.seeds:
        meet(root, seed)
    for node in order:  # grows during the loop
        for at, grad in zip(replay.following[node], flow.passed.get(node, ()), strict=False):
            if at is not None:
                meet(at, grad)
    return found


def _samples(experiment: Experiment, starts: list[tuple[OutputKey, torch.Tensor]]) -> int:
    """The number of samples."""
    replay = experiment.replay
    rows = [(at, grad.shape[0]) for at, grad in starts if grad.dim()]
    if len({size for _, size in rows}) > 1:
        # A penalty is computed from one parameter alone; a loss over data usually is not.
        several = [
            (at, size)
            for at, size in rows
            if sum(1 for i in replay.below([at[0]]) if replay.is_leaf(i)) > 1
        ]
        rows = several or rows
    sizes = sorted({size for _, size in rows})
    if len(sizes) == 1:
        return sizes[0]
    if not sizes:
        raise ValueError(
            'by="sample" splits a gradient along dimension 0 of what the outputs are computed '
            'from, but they are computed from single numbers only. Use by="edge" or by="path".'
        )
    raise ValueError(
        'by="sample" splits a gradient along dimension 0 of what the outputs are computed from, '
        f"but that has {', '.join(map(str, sizes))} rows in different places, so it is not known "
        "which are the samples. Ask about one output at a time."
    )
