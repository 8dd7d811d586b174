"""Count calls of Python functions: the same on every machine and at every load."""

from __future__ import annotations

import gc
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import gradwalk
from gradwalk import GraphWidget, record, watch

_OURS = str(Path(gradwalk.__file__).parent)

# Python from 3.12 on runs these within the function around them.
_INLINE = {"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"}

Program = tuple[nn.Module, Tensor, Callable[[Tensor], Tensor]]  # a model, its input and its loss


def calls_of(work: Callable[[], Any]) -> tuple[Any, Counter[str]]:
    """Run something, and count the calls of gradwalk's functions by file and name."""
    found: Counter[Any] = Counter()

    def count(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            found[frame.f_code] += 1

    result = _profiled(work, count)
    named: Counter[str] = Counter()
    for code, times in found.items():
        if code.co_filename.startswith(_OURS) and code.co_name not in _INLINE:
            named[f"{code.co_filename[len(_OURS) + 1 :]}: {code.co_name}"] += times
    return result, named


def events_of(work: Callable[[], Any]) -> tuple[Any, Counter[str]]:
    """Run something, and count all calls within it, also of C functions and of libraries."""
    found: Counter[Any] = Counter()

    def count(frame: Any, event: str, called: Any) -> None:
        if event == "call":
            found[frame.f_code, ""] += 1
        elif event == "c_call":
            found[frame.f_code, getattr(called, "__name__", "?")] += 1

    result = _profiled(work, count)
    named: Counter[str] = Counter()
    for (code, called), times in found.items():
        named[f"{Path(code.co_filename).name}: {code.co_name} {called}".rstrip()] += times
    return result, named


def _profiled(work: Callable[[], Any], count: Callable[[Any, str, Any], None]) -> Any:
    gc.collect()
    gc.disable()  # else finalizers run at other places in each run
    sys.setprofile(count)
    try:
        return work()
    finally:
        sys.setprofile(None)
        gc.enable()


def small() -> Program:
    """Two layers: a graph for a lecture."""
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), torch.ones(5, 3), _mean


def chain() -> Program:
    """Forty layers, one after the other."""
    layers = [layer for _ in range(40) for layer in (nn.Linear(3, 3), nn.Tanh())]
    return nn.Sequential(*layers), torch.ones(5, 3), _mean


def transformer() -> Program:
    """Three layers, narrow enough to run in no time."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
    return model, torch.ones(2, 5, 16), _mean


def _mean(output: Tensor) -> Tensor:
    return output.pow(2).mean()


GRAPHS: dict[str, Callable[[], Program]] = {
    "small": small,
    "chain": chain,
    "transformer": transformer,
}


def count_all(make: Callable[[], Program]) -> dict[str, Counter[str]]:
    """Count the calls of everything that a user of a widget does with one program."""
    torch.manual_seed(0)
    model, x, loss_of = make()
    found: dict[str, Counter[str]] = {}

    def counted(what: str, work: Callable[[], Any]) -> Any:
        result, found[what] = calls_of(work)
        return result

    def click(widget: GraphWidget) -> Any:
        widget.selected = 2
        return widget.details

    def watched() -> Tensor:
        with watch():
            return loss_of(model(x))

    loss = loss_of(model(x))
    widget = counted("making", lambda: GraphWidget(loss, names={}))
    counted("sending", widget.get_state)
    counted("observing", lambda: loss.backward(retain_graph=True))
    counted("showing", widget.get_state)
    counted("clicking", lambda: click(widget))
    widget.close()
    loss = loss_of(model(x))
    counted("recording", lambda: record(loss, names={}))
    loss = counted("watching", watched)
    widget = counted("making a watched one", lambda: GraphWidget(loss, names={}))
    widget.close()
    return found


def main() -> None:
    """Print the counts of each graph as JSON, with caches warm."""
    for make in GRAPHS.values():
        count_all(make)
        count_all(make)
    print(json.dumps({name: count_all(make) for name, make in GRAPHS.items()}))


if __name__ == "__main__":
    main()
