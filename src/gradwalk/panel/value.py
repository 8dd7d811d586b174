"""The value of a node in the panel: its numbers and their origin."""

from __future__ import annotations

from typing import Any

import torch

from ..graph.labels import short_value
from ..schema.details import TensorSummary, ValueModel
from ..schema.values import Values
from ..torch_api.nodes import at_first_use, leaf_tensor
from ..torch_api.reading import kind_without_data, version_of
from ..torch_api.summary import Summarise, plain_values, summarise, tensor_of
from ..tracing.annotate import Annotated
from ..tracing.extra_nodes import Extra
from ..tracing.values import COPIED, ITSELF, Drawn, used_leaf, value_of

_DRAWN = "Read when this graph was captured."
_REPEATED = "Computed again from the operation's inputs: torch did not keep the result."
_CHANGED = "It has been changed since{then}."
_COPIED_LEAF = "Copied by watch() when an operation took it."
_SINCE = "It has been changed in place since. {}"
_SEVERAL = (
    "It was changed in place between operations here, so they used different values of it. {}"
)
_CHANGED_LEAF = (
    "It has been changed in place since an operation here used it, so the value used is unknown. "
    "{} Under gradwalk.watch(), up to 16 numbers are copied when an operation uses them."
)
_DOUBT = (
    "This is its current value. It was changed in place, for example by an optimizer's step, and "
    "whether operations here used it before or after that is unknown. Only a tensor that is saved "
    "for backward, and not yet freed, records this."
)
_IN_BACKWARD = (
    "This operation ran inside backward (create_graph=True), which watch() does not see. "
    "No variable or saved tensor that can be read here is known to hold its result, and its inputs "
    "are not all known."
)


def value_model(
    captured: Annotated, node: int, drawn: Drawn, summarised: Summarise = summarise
) -> tuple[ValueModel | None, str | None]:
    """Return the value of an autograd node, or None; and what is unknown or has changed."""
    shown = drawn.values.get(node)
    leaf = leaf_tensor(captured.nodes[node])
    if leaf is not None:
        return _of_leaf(captured, node, leaf, drawn, summarised)
    known = value_of(captured, node)
    if known is not None:
        tensor = as_tensor(captured, node, known.value)
        return with_origin(tensor, known.origin, shown, summarised), None
    if shown is not None:
        origin = _REPEATED if node in drawn.repeated else _DRAWN
        return with_origin(as_tensor(captured, node, shown), origin, shown), None
    return None, _why_unknown(captured, node)


def _of_leaf(
    captured: Annotated, node: int, leaf: torch.Tensor, drawn: Drawn, summarised: Summarise
) -> tuple[ValueModel | None, str | None]:
    """The value of a leaf, as operations took it."""
    used = used_leaf(captured, node, drawn.had_run)
    shown = drawn.values.get(node)
    changed = used.changed or drawn.changed.get(node)
    since = not changed and version_of(leaf) != drawn.versions.get(node, version_of(leaf))
    summary = summarised(leaf)
    now = _value_sentence(summary)
    is_other = at_first_use(captured.nodes[node], leaf) is not leaf
    if is_other:
        shape = ", ".join(map(str, summary["shape"]))
        now += f" It is a {summary['dtype']} tensor of shape ({shape}) on {summary['device']} now."
    if shown is not None and (is_other or plain_values(leaf) not in (shown, None)):
        origin = _COPIED_LEAF if used.value is not None else _DRAWN
        return with_origin(as_tensor(captured, node, shown), origin, shown), _SINCE.format(now)
    if used.several:
        return None, _SEVERAL.format(now)
    if shown is None and (changed or since):
        return None, _CHANGED_LEAF.format(now)
    cost = _DOUBT if used.changed is None else None
    return {**summary, "origin": ITSELF}, cost


def _value_sentence(summary: TensorSummary) -> str:
    few = None if summary["truncated"] else short_value(summary["values"])
    if few is not None:
        return f"Now it holds {few}."
    norm = summary["norm"]
    return f"Now its norm is {norm:.4g}." if isinstance(norm, float) else ""


def with_origin(
    tensor: torch.Tensor, origin: str, drawn: Values | None, summarised: Summarise = summarise
) -> ValueModel:
    """Summarise a node's value with its origin; a note says if it differs from ``drawn``."""
    summary = summarised(tensor)
    note = summary["note"]
    if drawn is not None and note is None and plain_values(tensor) != drawn:
        shown = short_value(drawn)
        then = "" if shown is None else f"; the picture shows {shown}"
        note = _CHANGED.format(then=then)
    return {**summary, "note": note, "origin": origin}


def _why_unknown(captured: Annotated, node: int) -> str:
    outputs = len(captured.graph.nodes[node]["outputs"])
    if outputs > 1:
        return f"This operation gave {outputs} tensors, so it has no one value."
    reference = captured.tensors.get((node, 0))
    if reference is not None and reference() is not None:
        return (
            "The tensor may have been changed in place since, so the operation's result is unknown."
        )
    if node in captured.in_backward:
        return _IN_BACKWARD
    _, leaf = next(captured.leaves(), (0, None))
    kind = None if leaf is None else kind_without_data(leaf)
    if kind is not None:
        return f"The leaves of this graph are {kind} tensors, so torch computed no numbers."
    return (
        "No variable, output or saved tensor that can be read here is known to hold what this "
        "operation gave. A variable would, and for up to 16 numbers gradwalk.watch() copies it, "
        "except inside backward (create_graph=True)."
    )


def value_of_extra(
    extra: Extra, data: dict[str, Any], drawn: Values | None, summarised: Summarise = summarise
) -> ValueModel | None:
    """Return the value of a constant, a cut or an outside tensor with the attributes ``data``."""
    if extra.tensor is not None:
        return with_origin(extra.tensor, ITSELF, drawn, summarised)
    if drawn is None or not (data["dtype"] or "").startswith("torch."):
        return None  # a Python number is its own label
    tensor = tensor_of(drawn, data["dtype"], data["shape"])
    origin = _COPIED_LEAF if extra.kind != "outside" else COPIED
    return with_origin(tensor, origin, drawn, summarised)


def as_tensor(captured: Annotated, node: int, value: Any) -> torch.Tensor:
    """Convert numbers from ``tolist()`` or a picture to a tensor; return a tensor unchanged."""
    if isinstance(value, torch.Tensor):
        return value
    data = captured.graph.nodes[node]
    return tensor_of(value, data["dtype"], data["shape"])
