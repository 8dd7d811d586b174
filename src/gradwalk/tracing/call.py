"""A call of one of torch's functions, and questions about what it gave."""

from __future__ import annotations

from collections.abc import Mapping
from types import FrameType
from typing import Any, NamedTuple

import torch

from ..graph.capture import as_text
from ..torch_api.reading import read_version
from . import weak_id_dict
from .cuts import Made, Origin
from .operands import CallKind, changed_by, function_name
from .records import LeafSnapshot, Record


class Call(NamedTuple):
    """A call of one of torch's functions."""

    function: Any
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    start: int  # the number of the next autograd node, before the call
    end: int  # and after it
    frame: FrameType  # the frame that called
    random: torch.Tensor | None = None  # the state of the random numbers before, if it draws any


def gave_back(call: Call, kind: CallKind, result: Any) -> bool:
    """Return whether a call gave its operand back unchanged, as a dropout does in eval mode."""
    given = call.arguments
    if kind.inplace_at is None or not given or result is not given[0] or call.start < call.end:
        return False
    return bool(result.requires_grad) and not changed_by(kind, given, call.keywords)


def is_given(tensor: torch.Tensor) -> bool:
    """Whether a page is given a tensor, however it was made. Parameters get no weak reference."""
    return tensor.is_leaf and (tensor.requires_grad or isinstance(tensor, torch.nn.Parameter))


def is_same_large(last: LeafSnapshot, leaf: torch.Tensor) -> bool:
    """Return whether a snapshot without numbers is of an unchanged leaf."""
    reference, version, numbers = last
    return numbers is None and version == read_version(leaf) and reference() is leaf


def gives_input_back(call: Call) -> bool:
    """Return whether torch calls ``x.view_as(x)`` for a Function that returned its input ``x``."""
    given = call.arguments
    return call.function is torch.Tensor.view_as and len(given) == 2 and given[0] is given[1]


def is_new_leaf(made: list[torch.Tensor], arguments: tuple[Any, ...]) -> bool:
    """Return whether a call made one leaf, as ``torch.tensor(..., requires_grad=True)`` does."""
    if len(made) != 1 or not made[0].is_leaf or (arguments and made[0] is arguments[0]):
        return False
    return not isinstance(weak_id_dict.get(made[0]), Origin)


def made_of(record: Record) -> Made:
    """Return the facts about a tensor that a recorded call made."""
    facts = record.facts
    is_only = len(facts.needed_grad) == len(facts.leaves) == 1
    leaf = facts.leaves[0].tensor if is_only else None
    dtype = None if facts.output is None else as_text(facts.output[1])
    return Made(function_name(facts.function), leaf, dtype, facts.value)
