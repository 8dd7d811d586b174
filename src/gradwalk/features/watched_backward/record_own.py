"""Record a backward pass that the program runs under `watch()`.

`diagnose`, `explain_grad` and a later `GraphWidget` find the pass, as one that a widget has seen.
It lives as long as the tensor that backward started from.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import torch

from ...backward.observe import Observer, runs_own_pass
from ...backward.recorded_pass import RecordedPass, announce, source_of
from ...graph.adjacency import collector_paused
from ...graph.capture import Capture, capture_nodes
from ...graph.names import Names
from ...graph.outputs import read_outputs
from ...torch_api.engine import current_node
from ...torch_api.modes import grad_mode_kept, unseen
from ...torch_api.nodes import leaf_tensor
from ...torch_api.reading import is_plain
from ...torch_api.saved_tensors import read_saved, signed
from ...tracing.around_backward import Budget
from ...tracing.steps import note_counts, note_pass

_MEANS_OF_TARGETS = ("NllLossBackward0", "NllLoss2DBackward0")
MOST_KEPT = 2**24
"""Bytes of gradients that are kept of a pass; of the others only statistics."""


@contextmanager
def recorded(outputs: Sequence[torch.Tensor], budget: Budget) -> Iterator[None]:
    """Record the pass that the block runs through the graph of ``outputs``."""
    observed = None
    # Not a pass of a widget, nor one within a pass, as in a reentrant checkpoint.
    if current_node() is None and not runs_own_pass():
        with suppress(Exception):  # the program's backward runs in any case
            observed = _observed(outputs, budget)
    try:
        yield
    finally:
        if observed is not None:
            with suppress(Exception):
                _keep(outputs[0], *observed)


@grad_mode_kept
def _observed(outputs: Sequence[torch.Tensor], budget: Budget) -> tuple[Capture, Observer] | None:
    with unseen(), collector_paused():
        captured = capture_nodes(read_outputs(tuple(outputs), "watch"), Names())
    follower = source_of([(captured.nodes[node], nr) for node, nr in captured.roots])
    if follower is not None and not isinstance(follower, RecordedPass):
        return None  # a widget follows it
    note_pass()
    budget.nodes -= len(captured.nodes)
    with suppress(Exception):  # what a loss saved may be packed, or of a class that refuses
        _note_targets(captured)
    roots = {node for node, _ in captured.roots}
    return captured, Observer(captured.nodes, _ignore, roots, MOST_KEPT)


def _note_targets(captured: Capture) -> None:
    """Note over how many targets the losses of a pass average, before it frees them."""
    found = 0
    for node in captured.operations:
        if captured.graph.nodes[node]["op"] not in _MEANS_OF_TARGETS:
            continue
        saved = {each.name: each.value for each in read_saved(captured.nodes[node])}
        target = saved["target"]
        if saved["reduction"] == 1 and is_plain(target) and target.is_cpu:
            found += int((target != signed(saved["ignore_index"])).sum())
    if found:
        leaves = (leaf_tensor(each) for each in captured.nodes)
        note_counts(found, [id(leaf) for leaf in leaves if leaf is not None])


def _ignore() -> None:
    """Observe until the pass has ended: nobody waits for it."""


def _keep(output: torch.Tensor, captured: Capture, observer: Observer) -> None:
    run = observer.last
    observer.close()
    if run is None:
        return
    found = RecordedPass(captured, run)
    announce(found)
    weakref.finalize(output, _let_go, found).atexit = False


def _let_go(_: RecordedPass) -> None:
    """Let go of a pass: its argument is freed with the finalizer that held it."""
