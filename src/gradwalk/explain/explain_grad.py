"""`explain_grad`: why a tensor's ``.grad`` is None, zero or set."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from ..english import list_some, nearest
from ..graph.names import Names, caller_names, read_names
from ..torch_api.modes import grad_mode_kept
from ..types import Outputs, RecordedGraph
from .causes import reason_of
from .loss_graph import LossGraph, graph_of, read_loss
from .reason import KINDS, Reason

_LINE = r"(\S*?[^\s/]:\d+|Cell In\[\d+\]:\d+|<[^<>\s]+>:\d+)"
_PLACE = re.compile(rf" at {_LINE}\b|(?::| is) {_LINE} \(`")


class Explanation(str):
    """Why a ``.grad`` is None, zero or set: a sentence, with its parts. `explain_grad` returns it.

    It is a string, so it prints as the sentence and can be searched like one.

    Attributes:
        kind: The kind of cause: "gradient", "recorded", "summed", "unrecorded", "elsewhere",
            "frozen", "cut", "unused", "unknown", "intermediate", "waiting", "cleared", "zero" or
            "nan"; "module" for a module, and "saved" for a graph from a file.
        tensor: The name of the tensor, or the class of the module; None for a tensor without name.
        node: The id of its node in the graph; None if it has none, or no graph was given.
        line: The first line of the program that the sentence names, "net.py:7"; None for none.
        causes: The causes, each a slug such as "detached"; those of all parts for a module.
        parts: The explanations of a module's parameters, in their order; else empty.
    """

    kind: str
    tensor: str | None
    node: int | None
    line: str | None
    causes: tuple[str, ...]
    parts: tuple[Explanation, ...]

    def __new__(cls, *_: object, **__: object) -> Explanation:
        """Refuse: `explain_grad` makes it."""
        raise TypeError("Explanation() makes nothing. Call explain_grad(tensor, loss).")

    @classmethod
    def _of(
        cls,
        sentence: str,
        kind: str,
        *,
        tensor: str | None = None,
        node: int | None = None,
        causes: Iterable[str] = (),
        parts: Sequence[Explanation] = (),
    ) -> Explanation:
        """Make one."""
        found: Explanation = str.__new__(cls, sentence)
        found.kind, found.tensor, found.node = kind, tensor, node
        found.line = place_in(sentence)
        found.causes, found.parts = tuple(dict.fromkeys(causes)), tuple(parts)
        return found

    @classmethod
    def _because(cls, reason: Reason, tensor: str | None, node: int | None) -> Explanation:
        """Make one of a reason."""
        cause = re.sub(r"[^a-z0-9]+", "-", reason.cause.lower()).strip("-") or reason.kind
        return cls._of(reason.sentence, reason.kind, tensor=tensor, node=node, causes=[cause])

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return str.__str__(self)

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (str(self), vars(self))


def place_in(sentence: str) -> str | None:
    """Return the first line of a program that a sentence names: "net.py:7"; None for none."""
    place = _PLACE.search(sentence)
    return None if place is None else place[1] or place[2]


def _restored(sentence: str, fields: dict[str, object]) -> Explanation:
    """Undo a copy or a pickle."""
    found: Explanation = str.__new__(Explanation, sentence)
    vars(found).update(fields)
    return found


_UNRECORDED = "This graph has not recorded a backward pass, so other losses may have contributed."


@runtime_checkable
class _Showing(Protocol):
    """A widget that shows one graph."""

    def _shown(self) -> Any: ...


def explain_grad(
    tensor: torch.Tensor | nn.Module | str, *outputs: Outputs | RecordedGraph, stacklevel: int = 1
) -> Explanation:
    """Explain why the ``.grad`` of a tensor is None, zero or set.

    Asking changes nothing: no gradient is computed, and no random number is drawn.

    Args:
        tensor (torch.Tensor | nn.Module | str): A tensor; a module, for all its parameters; or the
            name of a leaf of the graph, or of a parameter of the caller's variables.
        *outputs (Outputs | RecordedGraph): The tensors that backward starts from, such as the loss,
            also in lists, tuples and dicts. Or the widget or the `gradwalk.results.Recording` that
            shows their graph: then the answer uses its recorded backward pass. Given a loss, it
            uses the pass of an open widget on it. If the forward pass ran under `gradwalk.watch`,
            the answer names the line where the gradient was cut.
        stacklevel (int, optional): The frame whose variables give names, as for ``warnings.warn``:
            1 is the caller, and a function that wraps this one passes 2. Default: ``1``.

    Returns:
        An `Explanation`: a string with the reason and what to do, and its parts. Inferred facts are
        marked so. ``.grad`` does not record which loss produced it, so this is known only for a
        recorded pass. For a module it lists the parameters without a usable gradient, by reason,
        and ``parts`` has the explanation of each parameter.

    Raises:
        TypeError: ``tensor`` is not a tensor, a module or a name; an output has no autograd graph;
            or a name came without a graph.
        ValueError: No leaf of the graph and no parameter of a variable has that name.

    Example::

        >>> import torch
        >>> from gradwalk import explain_grad
        >>> w = torch.tensor([4.0], requires_grad=True)
        >>> x = torch.tensor([2.0])
        >>> print(explain_grad(w * x))
        This tensor is not a leaf, so torch does not keep its gradient. Call retain_grad() on it \
before backward() to keep it in .grad.
        >>> print(explain_grad(x, w * x))
        x.requires_grad is False, so backward computes no gradient for x. Call \
x.requires_grad_() before the forward pass.
    """
    if not isinstance(tensor, (str, torch.Tensor, nn.Module)):
        raise TypeError(
            f"explain_grad() was given a {type(tensor).__name__}, which has no .grad. Pass a "
            "tensor, or a module to learn about all its parameters."
        )
    widget: Any = next((each for each in outputs if isinstance(each, _Showing)), None)
    if widget is not None and len(outputs) > 1:
        raise TypeError(
            "explain_grad() was given a widget and more. Pass only the widget whose graph has it."
        )
    if isinstance(tensor, str) and widget is not None and widget._shown().source.autograd is None:
        sentence = widget._shown().explain(tensor)
        return Explanation._of(sentence, "saved", tensor=tensor)
    names = caller_names(None, "explain_grad", stacklevel)
    if widget is not None:
        graph: LossGraph | None = _graph_shown(widget, names)
    else:
        graph = read_loss(outputs, names) if outputs else None
    if isinstance(tensor, str):
        return _explained(*_leaf_called(tensor, graph, names), graph)
    if graph is not None and isinstance(tensor, nn.Module):  # no variable may hold it
        gathered = read_names(tensor, "explain_grad").leaves_of_parameters()
        graph = replace(graph, gathered={**graph.gathered, **gathered})
    name = None if isinstance(tensor, nn.Module) else names.name_of(tensor)
    return _explained(tensor, name, graph)


def _graph_shown(widget: _Showing, names: Names) -> LossGraph:
    source = widget._shown().source
    if source.autograd is None:  # a static graph, or one opened from a file
        raise TypeError(
            "explain_grad() was given a widget without live tensors: it shows a file or a static "
            "graph. Pass the name of a leaf, as in explain_grad('net.weight', widget)."
        )
    run = None if source.recording is None else source.recording.run
    graph = graph_of(source.autograd, run)
    return replace(graph, gathered=names.leaves_of_parameters())


def _leaf_called(name: str, graph: LossGraph | None, names: Names) -> tuple[torch.Tensor, str]:
    """Find a leaf of a graph by its name, or a tensor of the program, such as a frozen one."""
    if graph is None or graph.captured is None:
        raise TypeError(
            f"explain_grad() was given the name {name!r} without a graph. Pass the widget whose "
            "graph has it, as in explain_grad('net.weight', widget), or the loss; or the tensor "
            "itself."
        )
    for node, leaf in graph.captured.leaves():
        if graph.captured.graph.nodes[node]["name"] == name:
            return leaf, name
    called = dict(names.known.values())
    for parameters in names.parameters.values():
        known = {
            path: names.known[key][1] for key, path in parameters.items() if key in names.known
        }
        called = {**known, **called}
    tensor = called[name]() if name in called else None
    if tensor is not None:
        return tensor, name
    leaves = (graph.captured.graph.nodes[node]["name"] for node, _ in graph.captured.leaves())
    near = nearest(name, dict.fromkeys([*filter(None, leaves), *called]))
    raise ValueError(
        f"explain_grad() was given {name!r}, but no leaf of this graph and no variable is called "
        f"so.{f' {near}' if near else ''}"
    )


@grad_mode_kept
def _explained(
    tensor: torch.Tensor | nn.Module, name: str | None, graph: LossGraph | None
) -> Explanation:
    with torch.no_grad():
        if isinstance(tensor, nn.Module):
            return _account(tensor, graph)
        node = None if graph is None else graph.node_of(tensor)
        return Explanation._because(reason_of(tensor, name, graph), name, node)


def _account(module: nn.Module, graph: LossGraph | None) -> Explanation:
    """Explain all parameters of a module, by reason."""
    kind = type(module).__name__
    groups: dict[str, list[tuple[str, Reason]]] = {}
    parts: list[Explanation] = []
    for name, parameter in module.named_parameters():
        reason = reason_of(parameter, name, graph)
        node = None if graph is None else graph.node_of(parameter)
        parts.append(Explanation._because(reason, name, node))
        groups.setdefault(reason.kind, []).append((name, reason))
    if not parts:
        return Explanation._of(
            f"{kind} has no parameters, so there is no .grad to explain.", "module", tensor=kind
        )
    lines = [_header(kind, len(parts), groups)]
    for of_kind in sorted(groups, key=list(KINDS).index):
        group = groups[of_kind]
        shown = list_some([name for name, _ in group])
        lines.append(f"- {KINDS[of_kind]} ({len(group)}): {shown}. {group[0][1].sentence}")
    causes = [cause for part in parts for cause in part.causes]
    return Explanation._of("\n".join(lines), "module", tensor=kind, causes=causes, parts=parts)


def _header(kind: str, count: int, groups: dict[str, list[tuple[str, Reason]]]) -> str:
    """Count the parameters with a gradient; take the groups that this says all about."""
    found = {name: groups[name] for name in _WITH_GRADIENT if name in groups}
    good = [reason for group in found.values() for _, reason in group]
    unread = sum(not reason.is_read for reason in good)
    end = "."
    if set(found) <= {"recorded", "summed"} and found:
        end = " from this backward pass."
    elif set(found) == {"unrecorded"} and len(good) == count:
        end = f". {_UNRECORDED}"
        groups.pop("unrecorded")
    for name in ("gradient", "recorded"):
        groups.pop(name, None)
    if unread:
        end += f" The values of {unread} of them cannot be read."
    if not good and count == 1:
        return f"The parameter of {kind} has no usable gradient:"
    if not good:
        return f"None of the {count} parameters of {kind} has a usable gradient:"
    all_ = f"All {count} parameters" if count > 1 else "The parameter"
    who = all_ if len(good) == count else f"{len(good)} of the {count} parameters"
    return f"{who} of {kind} {'have' if len(good) > 1 else 'has'} a gradient{end}"


_WITH_GRADIENT = ("gradient", "recorded", "summed", "unrecorded", "elsewhere")
