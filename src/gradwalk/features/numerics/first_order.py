"""Propagate small changes through one node, to first order, forward and backward.

The backward of a node is linear in the incoming gradients, so the backward result is exact. The
forward result is the Jacobian times the changes of the inputs: the derivative of backward with
respect to the incoming gradient, at zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from ...torch_api.nodes import op_name
from ...torch_api.reading import wider
from ...torch_api.saved_tensors import saved_value
from ..experiments.replay import Gradient, Replay, refuse

_FUSED_ATTENTION = {
    "ScaledDotProductFlashAttentionForCpuBackward0": "attn_mask",
    "ScaledDotProductFlashAttentionBackward0": None,
    "ScaledDotProductEfficientAttentionBackward0": "attn_bias",
    "ScaledDotProductCudnnAttentionBackward0": "attn_bias",
}
"""Operations whose backward has no derivative -> the saved attribute that holds the mask."""

_MOST_SCORES = 2**27


def passed_on(replay: Replay, node: int, arrived: list[Gradient]) -> list[Gradient]:
    """Return the outgoing gradients of a node, at least in float32, within `Replay.beside`."""
    refuse(replay.captured, [node])
    unit = _unit(each for each in arrived if each is not None)
    given = [_like(replay, node, nr, each, unit) for nr, each in enumerate(arrived)]
    found = replay.call(node, given)
    return [None if each is None else each.to(wider(each.dtype)) * unit for each in found]


def change_of_output(
    replay: Replay, node: int, changes: Mapping[int, torch.Tensor], output_nr: int = 0
) -> torch.Tensor:
    """Return the change of an output for changes of inputs by arg_nr, within `Replay.beside`."""
    refuse(replay.captured, [node])
    likes = replay.like(node)
    if op_name(replay.captured.nodes[node]) in _FUSED_ATTENTION and output_nr == 0:
        return _change_of_attention(replay.captured.nodes[node], changes)
    with torch.inference_mode(False), torch.enable_grad():
        given: list[Gradient] = [None] * len(likes)
        like = likes[output_nr]
        if like is None:
            raise RuntimeError("This output is a nested tensor, which has no single shape.")
        shape, dtype, device = like
        start = replay.far.to(device, dtype).expand(shape).clone()
        given[output_nr] = start
        found = replay.call(node, given)
        taken = [(found[nr], change) for nr, change in changes.items() if found[nr] is not None]
        outputs = [grad for grad, _ in taken if grad is not None]
        if not outputs:
            return start.detach()
        unit = _unit(change for _, change in taken)
        weights = [(change / unit).to(grad) for grad, change in taken if grad is not None]
        # torch raises if the backward has no derivative.
        (change,) = torch.autograd.grad(outputs, start, weights)
        return change.detach().to(wider(dtype)) * unit


def changes_of_outputs(
    replay: Replay, node: int, changes: Mapping[int, torch.Tensor]
) -> dict[int, torch.Tensor]:
    """Return the known changes of a node's used outputs, by output_nr; see `change_of_output`."""
    found: dict[int, torch.Tensor] = {}
    places = [replay.following[taker][nr] for taker, nr in replay.takers[node]]
    places += [place for place in replay.captured.roots if place[0] == node]
    for nr in {place[1] for place in places if place is not None and changes}:
        try:
            change = change_of_output(replay, node, changes, nr)
        except Exception:  # a custom Function may raise anything
            continue
        if bool(change.isfinite().all()):
            found[nr] = change
    return found


def with_signs(tensor: torch.Tensor, seed: int) -> torch.Tensor:
    """Return a tensor with random signs, so that sums of its numbers do not cancel."""
    is_signed = tensor.is_floating_point() or tensor.is_complex()
    if not is_signed or tensor.layout is not torch.strided:
        return tensor
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, tensor.shape, generator=generator).to(tensor.device)
    return tensor * (2 * signs - 1)


def _unit(changes: Iterable[torch.Tensor]) -> float:
    """A power of two near the largest number, so that half precision does not underflow."""
    most = max((float(each.abs().max()) for each in changes if each.numel()), default=0.0)
    return 2.0 ** math.floor(math.log2(most)) if most and math.isfinite(most) else 1.0


def _like(replay: Replay, node: int, output_nr: int, grad: Gradient, unit: float) -> Gradient:
    like = replay.like(node)[output_nr]
    if grad is None or like is None:
        return grad
    return (grad.to(wider(grad.dtype)) / unit).to(dtype=like[1], device=like[2])


def _change_of_attention(node: Any, changes: Mapping[int, torch.Tensor]) -> torch.Tensor:
    """The change of attention for changes of its query, key, value and mask."""
    query, key, value = (saved_value(node, name) for name in ("query", "key", "value"))
    mask_name = _FUSED_ATTENTION[op_name(node)]
    mask = None if mask_name is None else saved_value(node, mask_name)
    scores = math.prod(query.shape[:-1]) * key.shape[-2]
    if saved_value(node, "dropout_p") or scores > _MOST_SCORES:
        raise RuntimeError("Attention with dropout or with this many scores cannot run again.")
    given = saved_value(node, "scale")
    scale = 1 / math.sqrt(query.shape[-1]) if given is None else given
    score = query @ key.transpose(-2, -1) * scale
    if mask is not None:
        score = score.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else score + mask
    if saved_value(node, "is_causal"):
        score = score.masked_fill(torch.ones_like(score, dtype=torch.bool).triu(1), -math.inf)
    weight = torch.softmax(score, -1)
    change = torch.zeros_like(weight)
    if 0 in changes:
        change += changes[0].to(query) @ key.transpose(-2, -1) * scale
    if 1 in changes:
        change += query @ changes[1].to(key).transpose(-2, -1) * scale
    if 3 in changes:
        change += changes[3].to(change)
    change = weight * (change - (weight * change).sum(-1, keepdim=True))
    found: torch.Tensor = change @ value
    return found + weight @ changes[2].to(value) if 2 in changes else found
