"""A finding about examples that mix where one row each is expected."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ...checks.context import CheckContext
from ...checks.finding import Finding
from ...result import make
from ...schema.findings import Severity
from ...torch_api.nodes import custom_function
from ...torch_api.reading import fake_mode_of
from ..experiments.replay import Flow, Replay
from .probe import Rows, mixing_node, probe_row, rows_reached, shape_at, spans

_MOST_NODES = 400
_MOST_NUMBERS = 2**22  # of one tensor
_RESHAPES = frozenset({"ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0"})
_SOFTMAX = frozenset({"SoftmaxBackward0", "LogSoftmaxBackward0"})
_OVER_POSITIONS = frozenset(
    {
        *("ScaledDotProductFlashAttentionForCpuBackward0", "BmmBackward0"),
        *("ScaledDotProductEfficientAttentionBackward0", "ScaledDotProductFlashAttentionBackward0"),
    }
)
_SEQUENCES = frozenset({"LSTM", "GRU", "RNN", "MultiheadAttention"})
_LAYERS = frozenset({"MkldnnRnnLayerBackward0", "CudnnRnnBackward0"})
_WHY = {
    "reshape": (
        "A reshape keeps the order of the numbers and so moves them between examples. To swap "
        "dimensions, use transpose() or permute()."
    ),
    "softmax": "The softmax runs over the examples. Take the dimension of the classes, as in "
    "dim=-1.",
    "positions": (
        "It takes them as the positions of a sequence. If they are examples, set batch_first=True "
        "or transpose the input."
    ),
}


def mixed_rows(context: CheckContext) -> Iterator[Finding]:
    """Find an operation that mixes the examples of a batch, in a small graph."""
    captured = context.captured
    if len(captured.nodes) > _MOST_NODES or context.loss.holds_derivatives:
        return
    if fake_mode_of(leaf for _, leaf in captured.leaves()) is not None:
        return
    if captured.regions or any(custom_function(each) is not None for each in captured.nodes):
        return  # backward would run code of the program
    replay = Replay(captured)
    start = _per_example(replay)
    entries = [] if start is None else _entries(context, replay, start)
    if start is None or not entries:
        return
    row, only = start.count // 2, replay.above(entries)
    try:
        flow = probe_row(replay, start, row, only, set(entries))
    except RuntimeError:
        return  # freed, packed, or it must not run again
    if len(start.shape) < 3:  # else its first rows may be positions
        yield from _steps_as_examples(context, start, flow)
    mixed = [
        (node, reached)
        for node in entries
        if (came := flow.arrived.get(node)) and (reached := rows_reached(came[0], 0)) is not None
        if int(reached.sum()) > 1
    ]
    if not mixed:
        return
    node, reached = mixed[0]
    found = mixing_node(replay, start, row, only, node)
    why = None if found is None else _suspect(context, *found, start.count)
    if found is None or why is None or (why == "positions" and len(start.shape) > 2):
        return
    where = context.place(found[0])
    message = (
        f"Examples mix: example {row} of the loss depends on examples "
        f"{spans(reached.nonzero().flatten().tolist())} of {start.count}, through {where}. "
        f"{_WHY[why]}"
    )
    severity: Severity = "info" if why == "positions" else "warning"
    numbers = {"rows": float(reached.sum()), "examples": float(start.count)}
    yield make(Finding, "mixed-rows", severity, [found[0], node], message, numbers)


def _per_example(replay: Replay) -> Rows | None:
    """The tensor behind a loss that still has one row for each example."""
    roots = replay.captured.roots
    if len(roots) != 1:
        return None
    place = roots[0]
    for _ in range(len(replay.captured.nodes)):
        shape = shape_at(replay, place)
        if shape:
            rows, numbers = shape[0], torch.Size(shape).numel()
            is_fit = rows > 1 and numbers <= _MOST_NUMBERS and shape[1:2] != (rows,)
            return Rows(place, shape, 0) if is_fit else None
        following = {each for each in replay.following[place[0]] if each is not None}
        if len(following) != 1:
            return None
        (place,) = following
    return None


def _entries(context: CheckContext, replay: Replay, start: Rows) -> list[int]:
    """The first tensors made of data whose first size is the number of examples."""
    captured = context.captured
    found: dict[int, None] = {}
    for node in captured.operations:
        data = captured.graph.nodes[node]
        if not data["no_grad_inputs"] and data["op"] != "EmbeddingBackward0":
            continue
        behind = (each[0] for each in replay.following[node] if each is not None)
        sources = [each for each in behind if not replay.is_leaf(each)]
        if any(captured.graph.nodes[each]["op"] != "TBackward0" for each in sources):
            continue
        # A layer may flatten examples and positions first.
        if any(size % start.count == 0 for size in _first_sizes(context, node)):
            at = _with_rows(replay, node, start.count)
            found |= {} if at is None else {at: None}
    return list(found)


def _with_rows(replay: Replay, node: int, count: int) -> int | None:
    """The node itself, or the reshape after it, whose result has a row for each example."""
    for _ in range(3):
        shape = shape_at(replay, (node, 0))
        if len(shape) > 1 and shape[0] == count:
            return node if shape[1] != count else None
        takers = {taker for taker, _ in replay.takers[node]}
        ops = {replay.captured.graph.nodes[each]["op"] for each in takers}
        if len(takers) != 1 or not ops <= _RESHAPES:
            return None
        (node,) = takers
    return None


def _first_sizes(context: CheckContext, node: int) -> set[int]:
    """The first sizes of the data that a node takes."""
    seen = context.captured.annotations.get(node)
    shapes = [each.shape for each in (seen.constants if seen is not None else ())]
    if not shapes or context.captured.graph.nodes[node]["op"] == "EmbeddingBackward0":
        names = {p["argument"] for p in context.captured.graph.nodes[node]["no_grad_inputs"]}
        saved = context.saved(node).items()
        shapes = [
            tuple(value.shape)
            for name, value in saved
            if isinstance(value, torch.Tensor) and (name in names or name in ("mat1", "indices"))
        ]
    return {shape[0] for shape in shapes if shape}


def _suspect(context: CheckContext, node: int, received_one: bool, examples: int) -> str | None:
    """Why an operation hardly mixes examples on purpose; None where it may."""
    data = context.captured.graph.nodes[node]
    op, shape = data["op"], tuple(data["shape"] or ())
    seen = context.captured.annotations.get(node)
    running = seen.modules[-1][1] if seen is not None and seen.modules else ""
    if running in _SEQUENCES or (op in _OVER_POSITIONS and len(shape) > 2):
        return "positions"
    if op in _RESHAPES:
        return "reshape" if received_one else None
    if op in _SOFTMAX:
        return None if shape == (examples, examples) else "softmax"
    return None


def _steps_as_examples(context: CheckContext, start: Rows, flow: Flow) -> Iterator[Finding]:
    """A recurrent layer whose steps are the rows of the loss, with several sequences beside."""
    for node, _ in context.nodes_of(_LAYERS):
        came = flow.arrived.get(node)
        shape = tuple(context.captured.graph.nodes[node]["shape"] or ())
        reached = rows_reached(came[0], 0) if came else None
        if reached is None or shape[:1] != (start.count,) or len(shape) != 3 or shape[1] < 2:
            continue
        if int(reached.sum()) == 1 and context.saved(node).get("batch_first") is not True:
            message = (
                f"{context.place(node)} takes {shape[0]} steps of {shape[1]} sequences, and the "
                f"loss has {start.count} rows, one for each step. If these are examples, set "
                "batch_first=True or transpose the input."
            )
            yield make(Finding, "mixed-rows", "info", [node], message, {"rows": shape[0]})
