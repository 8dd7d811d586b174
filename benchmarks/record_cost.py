"""Cost of recording, next to a plain `loss.backward()` and to torch's anomaly mode.

    python benchmarks/record_cost.py [--full]

The same program runs backward in turn, in one process, and each way gets a graph made anew: hooks
leave traces in a graph, and make its next plain backward a quarter slower on tiny tensors. The
ways: plain, in anomaly mode (which looks for NaN and so may be compared), with an empty Python hook
on every node, recorded by the least that Python can do (walk the graph, hook every node, keep a
reference to what flows, remove the hooks), watched by an open widget, recorded by `record` (which
also walks the graph and installs its hooks), and watched beyond its budget (statistics only). A
widget is made without names, and with the model among the caller's variables; all that is sent of
it is worked out, as when it is displayed; and beside them runs `capture` alone. Times are CPU
milliseconds of one thread, the least of all rounds; the ratios are between those, to plain backward
or to `capture`. A pass is made ready to be shown when somebody asks, after it: "then shown" is the
time for that.
"""

from __future__ import annotations

import argparse
import gc
import platform
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import torch
from measured_programs import made_resnet, made_scans, made_transformer
from torch import Tensor, nn

from gradwalk import GraphWidget, capture, record
from gradwalk.torch_api.engine import current_node, remove_hooks

BESIDE = (
    "anomaly mode",
    "empty hook",
    "least record",
    "watched",
    "then shown",
    "record",
    "then steps",
    "statistics only",
)
"""Compared with plain backward."""

BESIDE_CAPTURE = ("making a widget", "making it with its model", "displaying it")
"""Compared with `capture`."""

Program = Callable[[], tuple[nn.Module, Tensor]]

PROGRAMS: dict[str, Program] = {
    "transformer, 12 layers of 16, 2 x 5 tokens": lambda: made_transformer(12),
    "transformer, 12 layers of 256, 2 x 128 tokens": lambda: made_transformer(12, 256, (2, 128)),
    "transformer, 12 layers of 512, 32 x 10 tokens": lambda: made_transformer(12, 512, (32, 10)),
    "scan as in Mamba, 2 layers of 64, 2 x 128 tokens": lambda: made_scans(2),
    "scan as in Mamba, 1 layer of 128, 4 x 128 tokens": lambda: made_scans(1, 128, (4, 128)),
    "ResNet of 16 blocks of 8 to 64, 2 x 8 x 8": made_resnet,
    "ResNet of 16 blocks of 64 to 512, 8 x 32 x 32": lambda: made_resnet(8, (8, 3, 32, 32)),
}


def _nodes(loss: Tensor) -> list[Any]:
    waiting: list[Any] = [loss.grad_fn]
    seen = set(waiting)
    for node in waiting:
        new = {child for child, _ in node.next_functions if child is not None} - seen
        seen |= new
        waiting += new
    return waiting


def _empty(grad_inputs: object, grad_outputs: object) -> None:
    pass


def least_record(loss: Tensor) -> list[Any]:
    """The least that Python can do to record: refer to what flows through every node."""
    noted: list[Any] = []

    def note(grad_inputs: object, grad_outputs: object) -> None:
        noted.append((current_node(), grad_inputs, grad_outputs))

    # One function for all of them: to make one for each takes longer than to ask whose turn it is.
    handles = [node.register_hook(note) for node in _nodes(loss)]
    loss.backward(retain_graph=True)  # type: ignore[no-untyped-call]
    remove_hooks(handles)
    return noted


def _with_its_model(loss: Tensor, model: nn.Module) -> GraphWidget:
    """A widget made where the model is a variable."""
    assert model is not None
    return GraphWidget(loss)


def one_round(program: Program) -> dict[str, float]:
    """One time of each way."""

    def fresh() -> Tensor:
        loss = program()[1]
        gc.collect()
        return loss

    def plain(loss: Tensor) -> float:
        return _spent(lambda: loss.backward(retain_graph=True))  # type: ignore[no-untyped-call]

    made: list[Any] = []
    times = {"plain": plain(fresh())}
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        loss = fresh()  # anomaly mode also wants the forward pass's stack traces
    with torch.autograd.set_detect_anomaly(True, check_nan=True):
        times["anomaly mode"] = plain(loss)
    for node in _nodes(loss := fresh()):
        node.register_hook(_empty)
    times["empty hook"] = plain(loss)
    loss = fresh()
    times["least record"] = _spent(lambda: made.append(least_record(loss)))
    made.clear()
    loss = fresh()
    times["making a widget"] = _spent(lambda: made.append(GraphWidget(loss, names={})))
    with closing(made.pop()) as widget:
        times["displaying it"] = _spent(widget.get_state)
        gc.collect()
        times["watched"] = plain(loss)
        times["then shown"] = _spent(lambda: (widget.state, widget.run))
    model, loss = program()
    gc.collect()
    times["making it with its model"] = _spent(lambda: made.append(_with_its_model(loss, model)))
    made.pop().close()
    loss = fresh()
    times["capture"] = _spent(lambda: capture(loss))
    loss = fresh()
    times["record"] = _spent(lambda: made.append(record(loss)))
    times["then steps"] = _spent(lambda: made.pop().steps)
    loss = fresh()
    with closing(GraphWidget(loss, names={}, max_bytes=0)):
        gc.collect()
        times["statistics only"] = plain(loss)
    return times


def _spent(work: Callable[[], object]) -> float:
    start = time.thread_time()
    work()
    return (time.thread_time() - start) * 1e3


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="more repetitions")
    rounds = 15 if parser.parse_args().full else 5
    torch.set_num_threads(1)  # one thread's CPU time is its time
    print(
        f"Python {platform.python_version()}, torch {torch.__version__}, {platform.machine()}, "
        f"one thread, least of {rounds} rounds\n"
    )
    columns = [*BESIDE, *(f"{way} ÷ capture" for way in BESIDE_CAPTURE)]
    print("| graph | nodes | plain ms | " + " | ".join(columns) + " |")
    print("|---|---:|---:|" + "---:|" * len(columns))
    for name, program in PROGRAMS.items():
        torch.manual_seed(0)
        one_round(program)
        found = [one_round(program) for _ in range(rounds)]
        least = {way: min(each[way] for each in found) for way in found[0]}
        cells = [f"{least[way] / least['plain']:.2f}" for way in BESIDE]
        cells += [f"{least[way] / least['capture']:.1f}" for way in BESIDE_CAPTURE]
        total, plain = len(_nodes(program()[1])), least["plain"]
        print(f"| {name} | {total} | {plain:.1f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
