"""How well `GraphWidget.measure` agrees with the clock and with torch.profiler.

    python benchmarks/measured_times.py [--full]

The share of backward's wall time that the nodes' times add up to, and Spearman's rank correlation
of these times with those of torch.profiler's events, matched by class and sequence number. The
profiler's times are the least of five passes, of one thread.
"""

from __future__ import annotations

import argparse

import torch
from measured_programs import made_resnet, made_transformer
from torch.profiler import ProfilerActivity, profile

from gradwalk import GraphWidget

_EVENT = "autograd::engine::evaluate_function: "
PROGRAMS = {
    "transformer, 4 layers of 256, 2 x 128 tokens": lambda: made_transformer(4, 256, (2, 128)),
    "ResNet of 16 blocks of 8 to 64, 2 x 8 x 8": made_resnet,
}
LARGE = {
    "transformer, 12 layers of 512, 32 x 10 tokens": lambda: made_transformer(12, 512, (32, 10)),
    "ResNet of 16 blocks of 64 to 512, 8 x 32 x 32": lambda: made_resnet(8, (8, 3, 32, 32)),
}


def profiled(loss: torch.Tensor, model: torch.nn.Module) -> dict[tuple[str, int], float]:
    """Return the least time of each node that the profiler saw."""
    least: dict[tuple[str, int], float] = {}
    for _ in range(5):
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
        for event in seen.events():
            if event.name.startswith(_EVENT):
                key = event.name.removeprefix(_EVENT), event.sequence_nr
                least[key] = min(least.get(key, float("inf")), event.cpu_time_total)
    return least


def spearman(pairs: list[tuple[float, float]]) -> float:
    """Return the rank correlation of pairs."""
    ranks = [torch.tensor(each).argsort().argsort().double() for each in zip(*pairs, strict=True)]
    return float(torch.corrcoef(torch.stack(ranks))[0, 1])


def main() -> None:
    """Print one row for each program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true")
    torch.set_num_threads(1)
    print("| program | nodes | share of wall time | Spearman with torch.profiler |")
    print("|---|---:|---:|---:|")
    for name, make in (PROGRAMS | (LARGE if parser.parse_args().full else {})).items():
        torch.manual_seed(0)
        model, loss = make()
        times = profiled(loss, model)  # before the widget, whose hooks take time of their own
        widget = GraphWidget(loss)
        found = widget.measure()
        numbers = dict(widget._source.graph.nodes(data="sequence_nr"))
        keys = [((each.op, numbers[each.node]), each.seconds) for each in found.nodes]
        pairs = [(seconds, times[key]) for key, seconds in keys if key in times]
        share = sum(each.seconds for each in found.nodes) / found.wall
        print(f"| {name} | {len(pairs)} | {share:.0%} | {spearman(pairs):.2f} |")


if __name__ == "__main__":
    main()
