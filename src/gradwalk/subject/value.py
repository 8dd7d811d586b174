"""What the panel says of the value of a node: the numbers, and where they are known from."""

from __future__ import annotations

from typing import Any

import torch

from ..forward.annotate import Annotated
from ..forward.values import value_of
from ..graph.summary import Summarise, plain_values, summarise
from ..graph.words import short_value
from ..wire import ValueModel, Values

_DRAWN = "Read when this graph was captured."
_CHANGED = "It has been changed since{then}."


def value_model(
    captured: Annotated, node: int, drawn: Values | None, summarised: Summarise = summarise
) -> ValueModel | None:
    """The value of an autograd node.

    Args:
        captured: The graph.
        node: The id of an autograd node.
        drawn: The numbers that the picture shows of it; None for none.
        summarised: Summarises tensors.

    Returns:
        Plain JSON values; None where the value is not known.
    """
    known = value_of(captured, node)
    if known is not None:
        return with_origin(_tensor(captured, node, known.value), known.origin, drawn, summarised)
    return None if drawn is None else with_origin(_tensor(captured, node, drawn), _DRAWN, drawn)


def with_origin(
    tensor: torch.Tensor, origin: str, drawn: Values | None, summarised: Summarise = summarise
) -> ValueModel:
    """The summary of a tensor that is a node's value.

    Args:
        tensor: The tensor.
        origin: A sentence: where it is known from.
        drawn: The numbers that the picture shows: of when the operation ran where it was watched,
            else of when the graph was captured.
        summarised: Summarises tensors.

    Returns:
        Plain JSON values, with a note where the two are not the same.
    """
    summary = summarised(tensor)
    if drawn is not None and summary["note"] is None and plain_values(tensor) != drawn:
        shown = short_value(drawn)
        then = "" if shown is None else f"; the picture shows {shown}"
        summary["note"] = _CHANGED.format(then=then)
    return {**summary, "origin": origin}


def why_unknown(captured: Annotated, node: int) -> str:
    """A sentence: why the value of an autograd node is not known."""
    outputs = len(captured.graph.nodes[node]["outputs"])
    if outputs > 1:
        return f"This operation gave {outputs} tensors, so it has no one value."
    reference = captured.tensors.get((node, 0))
    if reference is not None and reference() is not None:
        return (
            "The tensor may have been changed in place since, so what the operation gave is not "
            "known."
        )
    return (
        "No variable, output or saved tensor that can be read here is known to hold what this "
        "operation gave. A variable would, and for up to 16 numbers gradwalk.watch() copies it."
    )


def _tensor(captured: Annotated, node: int, value: Any) -> torch.Tensor:
    """A tensor of numbers as ``tolist()`` or a picture gives them; a tensor as it is."""
    if isinstance(value, torch.Tensor):
        return value
    data = captured.graph.nodes[node]
    dtype: torch.dtype = getattr(torch, data["dtype"].removeprefix("torch."))
    return torch.tensor(_numbers(value, dtype.is_complex), dtype=dtype).reshape(data["shape"])


def _numbers(value: Any, is_complex: bool) -> Any:
    """Numbers of which JSON made words: "nan", "1+2j"."""
    if isinstance(value, list):
        return [_numbers(each, is_complex) for each in value]
    if isinstance(value, str):
        return complex(value) if is_complex else float(value)
    return value
