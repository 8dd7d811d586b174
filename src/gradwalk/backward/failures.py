"""Find where backward went wrong: the node that raised, or that made the first NaN."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch.autograd.graph import Node

from ..english import join_words
from ..graph.capture import Capture
from ..graph.labels import described
from ..schema.backward import MarkModel
from ..torch_api.nodes import leaf_tensor, sequence_nr
from ..torch_api.reading import everywhere, finite
from ..torch_api.saved_tensors import read_saved
from ..torch_api.summary import summarise
from ..torch_api.tensors import has_hooks
from .kept_gradients import KeptGradient, norms
from .recorded_run import RecordedRun

if TYPE_CHECKING:
    import networkx as nx


def failed_node(graph: nx.MultiDiGraph, nodes: list[Node], run: RecordedRun) -> int | None:
    """Return the node that was about to run when a run stopped.

    Among nodes whose gradients have all arrived, the engine runs leaves first, then the highest
    sequence number.

    Args:
        graph: The captured graph.
        nodes: The autograd nodes, by id.
        run: A run that stopped.

    Returns:
        The node's id; None if no node was ready (the error came from outside the graph).
    """
    roots = [node for node, _ in graph.graph["roots"]]
    if run.seeds is None:  # only watched: it may have started from some of the outputs
        roots = list(run.steps)[:1]
    within = _reachable(graph, roots)
    ready = [
        node
        for node in within
        if node not in run.steps
        and all(source in run.steps for source in graph.pred[node] if source in within)
    ]
    return max(ready, key=lambda node: (*_turn(nodes[node]), -node), default=None)


def _turn(node: Node) -> tuple[bool, bool, int]:
    """Return a sort key: the engine runs the node with the largest first."""
    leaf = leaf_tensor(node)
    if leaf is None:
        return False, False, sequence_nr(node)
    # Leaves raise only in their hooks, so prefer one with hooks.
    return True, has_hooks(leaf), 0


def _reachable(graph: nx.MultiDiGraph, roots: Iterable[int]) -> dict[int, None]:
    """Return the nodes that gradients reach from some roots, in a fixed order."""
    found = dict.fromkeys(roots)
    waiting = list(found)
    for node in waiting:
        new = [target for target in graph.succ[node] if target not in found]
        found.update(dict.fromkeys(new))
        waiting += new
    return found


def error_note(graph: nx.MultiDiGraph, run: RecordedRun, failed: int | None) -> str:
    """Describe where a run stopped and why."""
    why = (
        f"The error was {run.error.rstrip('.')}."
        if run.error
        else "The error is the one your cell shows."
    )
    if failed is None:
        return f"Backward stopped after {run.total} steps. {why}"
    return f"Backward stopped at {described(graph, failed)}. {why}"


def first_nan(captured: Capture, run: RecordedRun) -> tuple[int, str] | None:
    """Return the first node, in the engine's order, that made NaN or Inf from finite gradients.

    Args:
        captured: The graph.
        run: A run.

    Returns:
        The node's id and a sentence; None if every gradient was finite, or the first NaN or Inf
        came from outside.
    """
    steps = list(run.steps.values())
    passed = [kept for step in steps for kept in step.grad_inputs]
    are_odd = [norm is not None and not math.isfinite(norm) for norm in norms(passed)]
    if not any(are_odd):
        return None
    suspicious = iter(are_odd)
    for step in steps:
        flags = [next(suspicious) for _ in step.grad_inputs]
        bad = [
            kept
            for kept, flag in zip(step.grad_inputs, flags, strict=True)
            if flag and kept is not None and not is_finite(kept)
        ]
        if bad and all(kept is None or is_finite(kept) for kept in step.grad_outputs):
            return step.node, _birth_note(captured, step.node, bad[0])
    return None


def is_finite(kept: KeptGradient) -> bool:
    """Return whether a gradient is free of NaN and Inf."""
    if kept.tensor is None:
        summary = kept.summarise()
        return not summary["nan"] and not summary["inf"]
    is_so = everywhere(kept.tensor, finite)
    if is_so is not None:
        return is_so
    summary = kept.summarise()
    return not summary["nan"] and not summary["inf"]


def _birth_note(captured: Capture, node: int, kept: KeptGradient) -> str:
    summary = kept.summarise()
    counts = [(summary["nan"], "NaN"), (summary["inf"], "Inf")]
    made = join_words(f"{count} {what}" for count, what in counts if count)
    among = f" among its {summary['numel']} numbers" if summary["numel"] > 1 else ""
    note = (
        f"{'NaN' if summary['nan'] else 'Inf'} is born here: the gradient that came to "
        f"{described(captured.graph, node)} was finite, what it passed on has {made}{among}."
    )
    odd = [_odd(saved.name, saved.value) for saved in read_saved(captured.nodes[node])]
    return " ".join([note, *filter(None, odd)])


def _odd(name: str, value: object) -> str | None:
    """Describe a possible cause: zeros, NaN or Inf in a saved tensor."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    if not (value.is_floating_point() or value.is_complex()):
        return None
    summary = summarise(value)
    counts = [(summary["nan"], "NaN"), (summary["inf"], "Inf"), (summary["zeros"], "zero")]
    parts = [f"{count} {what}" for count, what in counts if count]
    if not parts:
        return None
    where = f"Among the {value.numel()} numbers of" if value.numel() > 1 else "In"
    return f"{where} its saved {name}: {', '.join(parts)}."


def marks(captured: Capture, run: RecordedRun) -> list[MarkModel]:
    """Return the nodes where a pass went wrong, each with a sentence."""
    found: list[MarkModel] = []
    failed = run.failed
    if failed is None and run.state == "stopped" and run.grads is None:
        failed = failed_node(captured.graph, captured.nodes, run)
    if failed is not None:
        note = error_note(captured.graph, run, failed)
        found.append({"node": failed, "kind": "error", "note": note})
    birth = first_nan(captured, run)
    if birth is not None:
        found.append({"node": birth[0], "kind": "nan", "note": birth[1]})
    return found
