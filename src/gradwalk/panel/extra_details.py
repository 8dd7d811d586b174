"""The panel's details beyond autograd: records of `watch`, constants and cuts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from ..backward.recorded_run import RecordedRun
from ..explain import describe_node as why
from ..explain.constants_and_cuts import about_constant, about_cut, about_outside, no_flow
from ..explain.rank_nodes import about_sharded
from ..graph.labels import label
from ..schema.details import ConstantModel, ConsumerModel, CutModel, DetailsModel, SourceModel
from ..schema.graph import NoGradInput
from ..schema.values import Values
from ..torch_api.distributed import Sharded
from ..torch_api.summary import Summarise, summarise
from ..tracing.annotate import Annotated
from ..tracing.annotations import Annotation
from ..tracing.cuts import Cut
from ..tracing.extra_nodes import Extra
from ..tracing.source_line import SourceLine, shown_file
from ..tracing.values import ITSELF
from .blank import blank_details
from .value import with_origin

if TYPE_CHECKING:
    import networkx as nx

MOST_LISTED = 100
"""Most entries of each list: inputs, outputs, consumers, contributions to a gradient."""


class WatchedDetails(TypedDict):
    """The fields of `DetailsModel` that `watch` fills."""

    source: SourceModel | None
    module: str | None
    call: str | None
    inplace: bool
    inferred: bool
    constants: list[ConstantModel]
    cuts: list[CutModel]


def watched_details(captured: Annotated, node: int) -> WatchedDetails:
    """Return what `watch` recorded of an autograd node, and its drawn constants."""
    seen = captured.annotations.get(node)
    return {
        "source": line_model(seen.source) if seen is not None else None,
        "module": _module(seen),
        "call": seen.forward if seen is not None else None,
        "inplace": seen is not None and seen.inplace,
        "inferred": False,
        "constants": _constants(captured.drawn, node),
        "cuts": [],
    }


def undrawn_inputs(captured: Annotated, node: int) -> list[NoGradInput]:
    """List the inputs of a node that need no grad and are not drawn as constants."""
    inputs: list[NoGradInput] = captured.graph.nodes[node]["no_grad_inputs"]
    drawn = {edge["input_nr"] for _, _, edge in _feeding(captured.drawn, node)}
    return [each for each in inputs if each["input_nr"] not in drawn]


def extra_details(
    captured: Annotated,
    node: int,
    drawn: Values | None = None,
    summarised: Summarise = summarise,
) -> DetailsModel:
    """Describe a constant, a cut or an outside tensor.

    Args:
        captured: A graph with annotations.
        node: The id of the node.
        drawn: Its numbers in the picture.
        summarised: Summarises tensors.

    Returns:
        The contents of the panel.
    """
    graph, extra = captured.drawn, captured.extra(node)
    tensor = extra.tensor
    origin = extra.constant.origin if extra.constant is not None else None
    return {
        **blank_details(graph, node, _about(graph, node, extra), no_flow(graph.nodes[node])),
        "consumers": _takers(graph, node)[:MOST_LISTED],
        "value": None if tensor is None else with_origin(tensor, ITSELF, drawn, summarised),
        "state": "not reached",
        "source": line_model(origin.where) if origin is not None else None,
        "inferred": extra.inferred,
        "cuts": _cuts(graph, extra),
    }


def put_sharded(
    found: DetailsModel, sharded: Sharded, run: RecordedRun | None, summarised: Summarise
) -> None:
    """Add the reduced gradient of a parameter that FSDP2 shards.

    Args:
        found: The details of the leaf that it was gathered in.
        sharded: The parameter.
        run: The shown pass.
        summarised: Summarises tensors.
    """
    found["about"] = f"{about_sharded(sharded)} {found['about']}"
    grad = sharded.grad
    if grad is not None:
        sentence = why.reduced_part(sharded)
        found["grad"] = {**summarised(grad), "note": sentence}
        found["grad_note"]["grad"], found["explained"] = None, sentence
    elif found["grad"] is None:
        found["grad_note"]["grad"] = found["explained"] = why.not_reduced(sharded, run)


def _about(graph: nx.MultiDiGraph, node: int, extra: Extra) -> str:
    data = graph.nodes[node]
    if extra.kind == "outside":
        return about_outside(data)
    if extra.kind == "cut":
        assert extra.constant is not None
        sources = [label(graph.nodes[source]) for source in extra.sources]
        return about_cut(data, extra.constant.cuts, sources)
    return about_constant(data, extra.constant)


def _feeding(graph: nx.MultiDiGraph, node: int) -> list[tuple[int, int, dict[str, Any]]]:
    """List the edges of a node to its constants."""
    edges = graph.out_edges(node, data=True)
    return [each for each in edges if each[2].get("kind") == "constant"]


def _constants(graph: nx.MultiDiGraph, node: int) -> list[ConstantModel]:
    return [
        {
            "node": target,
            "argument": edge["argument"],
            "input_nr": edge["input_nr"],
            "label": label(graph.nodes[target]),
            "shape": list(graph.nodes[target]["shape"]),
        }
        for _, target, edge in _feeding(graph, node)
    ]


def _takers(graph: nx.MultiDiGraph, node: int) -> list[ConsumerModel]:
    return [
        {
            "node": source,
            "input_nr": edge["input_nr"],
            "argument": edge["argument"],
            "output_nr": 0,
            "label": label(graph.nodes[source]),
        }
        for source, _, edge in graph.in_edges(node, data=True)
    ]


def _cuts(graph: nx.MultiDiGraph, extra: Extra) -> list[CutModel]:
    cuts: tuple[Cut, ...] = extra.constant.cuts if extra.constant is not None else ()
    return [
        {
            "how": cut.how,
            "node": source,
            "label": label(graph.nodes[source]),
            "line": line_model(cut.where),
            "region": line_model(cut.region),
        }
        for cut, source in zip(cuts, extra.sources, strict=True)
    ]


def line_model(where: SourceLine | None) -> SourceModel | None:
    """Convert a line of the user's program for the panel."""
    if where is None:
        return None
    return {
        "file": shown_file(where.file),
        "line": where.line,
        "text": where.text,
        "function": where.function,
    }


def _module(seen: Annotation | None) -> str | None:
    if seen is None or seen.module is None:
        return None
    return seen.module or seen.module_root
