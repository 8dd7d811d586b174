"""The arguments of a custom Function's call, found again from its node."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.autograd.graph import Node

from ...english import join_words
from ...graph.outputs import gone_sentence
from ...torch_api.modes import random_numbers_kept
from ...torch_api.nodes import is_gone, leaf_tensor
from ...torch_api.saved_tensors import Saved, read_saved


def arguments_of(
    node: Node, custom: type[torch.autograd.Function], gave: torch.Tensor | None
) -> list[Any]:
    """Return the arguments of a Function's call, as far as its node knows them.

    An input that needs grad is found by its edge, another by its name on ``ctx``. The remaining
    saved tensors are taken for the remaining arguments if forward then gives the same output.

    Args:
        node: The node of the call.
        custom: The Function.
        gave: An output of the call; None where it is not known.

    Raises:
        ValueError: One is not known.
    """
    if is_gone(node):
        raise ValueError(
            f"check() was given {gone_sentence(node)} Or give all arguments: check(node, x, ...)."
        )
    saved = list(read_saved(node))
    for each in saved:
        if each.note is not None:
            raise ValueError(
                f"{custom.__name__} cannot be checked on what it saved. {each.note} Give all its "
                "arguments instead: check(node, x, ...)."
            )
    needed = list(node.needs_input_grad)  # type: ignore[attr-defined]
    names = argument_names(custom, len(needed))
    edges = iter([edge for edge in node.next_functions if edge[0] is not None])
    found = {i: _input(next(edges, (None, 0)), saved) for i, need in enumerate(needed) if need}
    on_context = vars(node)
    found.update(
        (i, on_context[name])
        for i, name in enumerate(names)
        if i not in found and name in on_context
    )
    places = range(len(needed))
    left = [i for i in places if i not in found]
    others = _others(node, found.values(), saved)
    known = [gave, *(each.value for each in saved if _is_given_by(node, each.value))]
    if left and len(left) == len(others) and _UNKNOWN not in found.values():
        guessed = {**found, **dict(zip(left, others, strict=True))}
        if _gives(custom, [guessed[i] for i in places], known):
            return [guessed[i] for i in places]
    missing = [names[i] for i in places if found.get(i, _UNKNOWN) is _UNKNOWN]
    if missing:
        raise ValueError(
            f"{custom.__name__} cannot be checked: its node did not save {join_words(missing)}. "
            f"Give all its arguments: check(node, {', '.join(names)})."
        )
    return [found[i] for i in places]


def devices_of(arguments: Iterable[Any]) -> set[torch.device]:
    """Return the devices of the tensors among the arguments."""
    return {each.device for each in arguments if isinstance(each, torch.Tensor)}


def _is_given_by(node: Node, value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.grad_fn is node


def _others(node: Node, used: Iterable[Any], saved: Sequence[Saved]) -> list[Any]:
    """The saved values that are neither known arguments nor outputs."""
    ids = {id(each) for each in used}
    return [
        each.value
        for each in saved
        if id(each.value) not in ids and not _is_given_by(node, each.value)
    ]


def _gives(
    custom: type[torch.autograd.Function],
    arguments: list[Any],
    known: Sequence[torch.Tensor | None],
) -> bool:
    """Whether forward returns one of its known outputs."""
    apply: Callable[..., Any] = custom.apply
    with random_numbers_kept(devices_of(arguments)), torch.no_grad():
        try:
            given = apply(
                *(each.clone() if isinstance(each, torch.Tensor) else each for each in arguments)
            )
        except Exception:  # it was called with something else
            return False
    listed = given if isinstance(given, (tuple, list)) else [given]
    return any(
        torch.allclose(one, other.detach(), equal_nan=True)
        for one in listed
        for other in known
        if isinstance(one, torch.Tensor)
        and other is not None
        and (one.shape, one.dtype) == (other.shape, other.dtype)
    )


_UNKNOWN = object()


def _input(edge: tuple[Node | None, int], saved: Sequence[Saved]) -> Any:
    """The tensor at an edge: a leaf, or the saved tensor."""
    child, output_nr = edge
    leaf = None if child is None else leaf_tensor(child)
    if leaf is not None:
        return leaf
    for each in saved:
        value = each.value
        is_there = isinstance(value, torch.Tensor) and value.grad_fn is child
        if is_there and value.output_nr == output_nr:
            return value
    return _UNKNOWN


def argument_names(custom: type[torch.autograd.Function], count: int) -> list[str]:
    """Return the names of forward's arguments; "input_2" for one without a name."""
    with_context = custom.setup_context is torch.autograd.Function.setup_context
    names = list(inspect.signature(custom.forward).parameters)[1 if with_context else 0 :]
    return [names[i] if i < len(names) else f"input_{i}" for i in range(count)]
