"""`explain_grad`: why a tensor's ``.grad`` is None, or zero, or what it is."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from .. import notebook
from ..graph.modes import grad_mode_kept
from ..graph.names import Names, names_among, read_names
from .loss_graph import LossGraph, read_loss
from .reason import KINDS, Reason
from .reasons import reason_of

_MOST_NAMED = 8


class _Shown(Protocol):
    """What a widget shows."""

    def explain(self, name: str) -> str:
        """Why the ``.grad`` of the leaf of that name is as it is."""
        ...


@runtime_checkable
class _Showing(Protocol):
    """A widget that shows one graph, of this process or of files."""

    def _shown(self) -> _Shown: ...


def explain_grad(tensor: torch.Tensor | nn.Module | str, *outputs: Any) -> str:
    """Why the ``.grad`` of a tensor is None, or why it is not.

    Asking changes nothing: no gradient is computed, and no random number is drawn.

    Args:
        tensor: A tensor; or a module, for an account of all its parameters; or the name of a leaf
            of the graph that a widget shows.
        *outputs: What backward starts from, such as the loss: tensors, also in lists, tuples and
            dicts. Without them only what the tensor itself tells can be told. When the forward pass
            ran under `gradwalk.watch`, the line where gradient was cut can be named. With a name,
            the widget: where it has loaded the files of several ranks, what differs between them is
            told, too.

    Returns:
        One sentence with the remedy; where something is inferred it says so. Which loss a gradient
        is of is nowhere written down: of one that is there it is said what is known of that, and,
        where the tensor is not part of the graph, why. For a module, the parameters without a
        gradient of this loss by reason, each reason with the sentence about the first.

    Raises:
        TypeError: ``tensor`` is neither a tensor nor a module, or an output is of a kind that has
            no autograd graph; or a name came without a widget.
        ValueError: The graph of the widget has no leaf of that name.

    Example::

        >>> w = torch.tensor([4.0], requires_grad=True)
        >>> x = torch.tensor([2.0])
        >>> explain_grad(w * x)
        'This tensor is not a leaf, so torch drops its gradient once it has been used: call \
retain_grad() on it before backward() to keep it in .grad.'
        >>> print(explain_grad(x, w * x))
        x.requires_grad is False, so backward computes no gradient for it: call \
x.requires_grad_() before the forward pass.
    """
    if isinstance(tensor, str):
        if len(outputs) != 1 or not isinstance(outputs[0], _Showing):
            raise TypeError(
                f"explain_grad() was given the name {tensor!r}. With a name it takes the widget "
                "whose graph has it, as in explain_grad('net.weight', gradwalk.load('run-*.gw')); "
                "or pass the tensor itself, and the loss."
            )
        return outputs[0]._shown().explain(tensor)
    names = names_among(notebook.caller_variables(sys._getframe(1)))
    if not isinstance(tensor, (torch.Tensor, nn.Module)):
        raise TypeError(
            f"explain_grad() was given a {type(tensor).__name__}, which has no .grad. Pass a "
            "tensor, or a module to learn about all its parameters."
        )
    graph = read_loss(outputs, names) if outputs else None
    if graph is not None and isinstance(tensor, nn.Module):  # it may stand in no variable
        gathered = read_names(tensor, "explain_grad").leaves_of_parameters()
        graph = replace(graph, gathered={**graph.gathered, **gathered})
    return _explained(tensor, graph, names)


@grad_mode_kept
def _explained(tensor: torch.Tensor | nn.Module, graph: LossGraph | None, names: Names) -> str:
    with torch.no_grad():
        if isinstance(tensor, nn.Module):
            return _account(tensor, graph)
        return reason_of(tensor, names.name_of(tensor), graph).sentence


def _account(module: nn.Module, graph: LossGraph | None) -> str:
    """All parameters of a module, by reason."""
    kind = type(module).__name__
    groups: dict[str, list[tuple[str, Reason]]] = {}
    count = 0
    for name, parameter in module.named_parameters():
        count += 1
        reason = reason_of(parameter, name, graph)
        groups.setdefault(reason.kind, []).append((name, reason))
    if count == 0:
        return f"{kind} has no parameters, so there is no .grad to explain."
    unsure = groups.pop("unsure", [])
    good = [*groups.pop("gradient", []), *unsure, *groups.get("elsewhere", [])]
    read = all(reason.is_read for _, reason in good)
    open_ = ""
    if unsure and graph is not None:
        open_ = f"; whether {graph.name} has a part in it is not known of {len(unsure)}"
    if not groups:
        return f"Every parameter of {kind} has a gradient ({count} of {count}){open_}."
    lines = [
        f"{len(good)} of the {count} parameters of {kind} have a "
        f"{'finite gradient that is not zero' if read else 'gradient, not all of them read'}"
        f"{open_}."
    ]
    for of_kind in sorted(groups, key=list(KINDS).index):
        group = groups[of_kind]
        shown = ", ".join(name for name, _ in group[:_MOST_NAMED])
        more = f" and {len(group) - _MOST_NAMED} more" if len(group) > _MOST_NAMED else ""
        lines.append(f"- {KINDS[of_kind]} ({len(group)}): {shown}{more}. {group[0][1].sentence}")
    return "\n".join(lines)
