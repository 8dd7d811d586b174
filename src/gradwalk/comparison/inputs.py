"""Check the arguments of `compare`, and capture them as labelled graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.autograd.graph import GradientEdge

from ..graph.arguments import MOST_NODES
from ..graph.capture import capture_nodes
from ..graph.names import Names, read_names
from ..graph.outputs import Output, is_program, read_outputs
from ..sources.graph_source import MOST_SHOWN, GraphSource
from ..sources.live_graph import LiveGraph
from ..sources.static_graph import StaticGraph
from ..static.capture_static import StaticCapture, capture_static
from ..tracing.annotate import annotate

MOST_GRAPHS = 4  # most graphs that fit side by side


def read_graphs(
    graphs: Any, names: Any, found: Names, constants: bool | None = None
) -> dict[str, GraphSource]:
    """Capture each graph under its label; ``found``: the names to use when ``names`` is None."""
    if isinstance(names, (torch.Tensor, GradientEdge)):
        raise TypeError(
            "compare() was given a tensor as names. Give all graphs at once, as in "
            "compare([a, b]) or compare({'a': a, 'b': b})."
        )
    labels, given = _read_labels(graphs)
    _check_count(len(given))
    outputs = [
        read_outputs((each,), "compare" if label is None else f"compare(), under {label!r},")
        if not is_program(each)
        else []
        for label, each in zip(labels, given, strict=True)
    ]
    called = _read_names(names, labels, found)
    names_found = [
        label if label is not None else _name(output, known) or f"graph {i}"
        for i, (label, output, known) in enumerate(zip(labels, outputs, called, strict=True), 1)
    ]
    plain = [
        capture_static(each) if is_program(each) else capture_nodes(output, known, MOST_NODES)
        for each, output, known in zip(given, outputs, called, strict=True)
    ]
    infer = constants or all(len(captured.graph) <= MOST_SHOWN for captured in plain)
    sources: list[GraphSource] = [
        StaticGraph(captured)
        if isinstance(captured, StaticCapture)
        else LiveGraph(annotate(captured, known, infer=infer, look=infer), known)
        for captured, known in zip(plain, called, strict=True)
    ]
    return dict(zip(_apart(names_found), sources, strict=True))


def _read_labels(graphs: Any) -> tuple[list[str | None], list[Any]]:
    if isinstance(graphs, Mapping):
        labels = list(graphs)
        for label in labels:
            if not isinstance(label, str):
                raise TypeError(
                    f"compare() was given the label {label!r}, of type {type(label).__name__}. "
                    "Labels are the texts above the graphs: give strings."
                )
            if not label.strip():
                raise ValueError(
                    "compare() was given an empty label. Labels are the texts above the graphs: "
                    "give each a few words."
                )
        return labels, list(graphs.values())
    if isinstance(graphs, (torch.Tensor, GradientEdge)) or is_program(graphs):
        return [None], [graphs]
    if isinstance(graphs, Sequence) and not isinstance(graphs, (str, bytes)):
        return [None] * len(graphs), list(graphs)
    raise TypeError(
        f"compare() was given {graphs!r}, of type {type(graphs).__name__}. Give a mapping from "
        "labels to tensors, such as {'frozen': loss_a, 'cut': loss_b}, or a list of tensors."
    )


def _check_count(count: int) -> None:
    if count < 2:
        raise ValueError(
            f"compare() was given {'one graph' if count else 'no graph'}, and comparing takes at "
            "least two: give a mapping such as {'frozen': loss_a, 'cut': loss_b}, or a list of "
            "tensors. To look at one graph, use GraphWidget(loss)."
        )
    if count > MOST_GRAPHS:
        raise ValueError(
            f"compare() was given {count} graphs, and no more than {MOST_GRAPHS} fit side by side. "
            "Compare them in smaller groups, each with the reference graph."
        )


def _read_names(names: Any, labels: Sequence[str | None], found: Names) -> list[Names]:
    if names is None:
        return [found] * len(labels)
    kinds = (Mapping, torch.nn.Module)
    if (
        isinstance(names, Mapping)
        and names.keys() == set(labels)
        and all(isinstance(each, kinds) for each in names.values())
    ):
        return [read_names(names[label], "compare") for label in labels]
    return [read_names(names, "compare")] * len(labels)


def _name(outputs: Sequence[Output], known: Names) -> str | None:
    """The user's name of the first output; None for a static graph."""
    if not outputs:
        return None
    output = outputs[0]
    if output.tensor is not None and output.tensor.is_leaf:
        return known.leaves.get(id(output.tensor))
    return known.edges.get((output.node, output.output_nr))


def _apart(labels: Sequence[str]) -> list[str]:
    """Number the labels that occur twice."""
    found: list[str] = []
    for label in labels:
        number, candidate = 2, label
        while candidate in found:
            number, candidate = number + 1, f"{label} ({number})"
        found.append(candidate)
    return found
