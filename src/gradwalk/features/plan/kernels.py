"""Memory and layout of operators whose fake kernels differ from the real ones."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from ...torch_api.modes import unseen

_PAGE = 4096
_NONE = 0  # the reduction that keeps the shape


def add_missing_memory(func: Any, args: Any, kwargs: Any, result: Any) -> str | None:
    """Give the storages of a fake result the size that the real operator gives them.

    Returns:
        Memory that cannot be counted, as the start of a sentence; None if everything is.
    """
    correct = _CORRECTIONS.get(func)
    return None if correct is None else correct(args, kwargs, result)


def arranged(func: Any, args: Any, result: Any) -> Any:
    """Return a fake result with the layout and the memory that the real operator gives it.

    A layout decides whether later operators copy.
    """
    layout = _LAYOUTS.get(func)
    if layout is not None:
        made = result if isinstance(result, torch.Tensor) else result[0]
        known = None if made is None else layout(args, made)
        if known is not None:
            return _replaced(result, torch.empty_like(made, memory_format=known))
    place = _SEPARATE.get(func)
    if place is None or result[place] is None:
        return result
    return _replaced(result, torch.empty_like(result[place]), place)


def _replaced(result: Any, by: torch.Tensor, place: int = 0) -> Any:
    if isinstance(result, torch.Tensor):
        return by
    return (*result[:place], by, *result[place + 1 :])


def _plain(_: Any, __: torch.Tensor) -> torch.memory_format:
    return torch.contiguous_format


def _of_operand(place: int, args: Any, made: torch.Tensor) -> torch.memory_format | None:
    """Return the layout of CPU kernels that know two: plain, and channels last as an operand."""
    given = args[place]
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(given.dim())
    if made.device.type != "cpu":
        return None
    if last is None or given.is_contiguous() or not given.is_contiguous(memory_format=last):
        return torch.contiguous_format
    return last


def _layouts() -> dict[Any, Callable[[Any, torch.Tensor], torch.memory_format | None]]:
    aten = torch.ops.aten
    normalized = (
        aten.native_batch_norm.default,
        torch.ops.aten._native_batch_norm_legit.default,
        torch.ops.aten._native_batch_norm_legit.no_stats,
        torch.ops.aten._batch_norm_with_update.default,
    )
    plain = ("native_layer_norm", "mse_loss", "smooth_l1_loss", "huber_loss")
    return {
        **dict.fromkeys(normalized, functools.partial(_of_operand, 0)),
        aten.native_batch_norm_backward.default: functools.partial(_of_operand, 1),
        aten.batch_norm_backward.default: functools.partial(_of_operand, 1),
        **{getattr(aten, f"{name}_backward").default: _plain for name in plain},
    }


def _resize(tensor: torch.Tensor, size: int) -> None:
    if tensor.untyped_storage().nbytes() < size:
        tensor.untyped_storage().resize_(size)


def _reduced_loss(reduction: int, args: Any, kwargs: Any, result: torch.Tensor) -> None:
    """A mean or sum that is written into the memory of the losses of each number."""
    given = args[reduction] if len(args) > reduction else kwargs.get("reduction", 1)
    if given != _NONE:
        shape = torch.broadcast_shapes(args[0].shape, args[1].shape)  # type: ignore[no-untyped-call]
        _resize(result, math.prod(shape) * result.element_size())


def _embedding_bag(_: Any, __: Any, result: Any) -> None:
    """The bag of each index has one more number while it is made."""
    bags = result[1]
    if bags.numel() and bags.device.type == "cpu":
        _resize(bags, (bags.numel() + 1) * bags.element_size())


def _recurrent_layer(args: Any, _: Any, result: Any) -> str | None:
    """Add the workspace of one layer of an LSTM on the CPU.

    Its size is oneDNN's. The real operator, run on sequences of one step, confirms it.
    """
    source, _, hidden_weight = args[:3]
    steps, batch = source.shape[:2]  # also where the layer has the batch first
    sizes = batch, source.shape[2], hidden_weight.shape[1]
    if not torch.is_grad_enabled():
        return None  # the real operator keeps nothing
    real = _real_workspace(*sizes, source.dtype)
    if real is None or source.dtype is not torch.float32 or real != _workspace(1, *sizes):
        return "The workspace of an LSTM"
    _resize(result[3], _workspace(steps, *sizes))
    return None


def _workspace(steps: int, batch: int, width: int, hidden: int) -> int:
    """Return the bytes of oneDNN's workspace for one layer and direction of an LSTM in float32."""
    rows = 2 * (steps + 1) * batch  # of the layer's input and output, and a state before the first
    wide = rows * _padded(max(width, hidden))
    parts = [wide, wide, wide, rows * hidden, rows * hidden]
    parts += [steps * batch * _padded(4 * hidden), steps * batch * _padded(hidden)]
    return sum(math.ceil(4 * part / _PAGE) * _PAGE for part in parts)


def _padded(width: int) -> int:
    """Return the length of a row: whole cache lines, and no multiple of 256."""
    rounded = math.ceil(width / 16) * 16
    return rounded if rounded % 256 else rounded + 16


@functools.lru_cache(256)
def _real_workspace(batch: int, width: int, hidden: int, dtype: torch.dtype) -> int | None:
    """Return the bytes of the workspace for sequences of one step; None if it does not run."""
    with unseen(), torch.enable_grad(), torch.device("cpu"):
        zeros = functools.partial(torch.zeros, dtype=dtype)
        gates = 4 * hidden
        weights = zeros(gates, width), zeros(gates, hidden), zeros(gates), zeros(gates)
        state = zeros(1, batch, hidden)
        how: tuple[Any, ...] = False, [], 2, hidden, 1, True, False, False, True
        try:
            made = torch.ops.aten.mkldnn_rnn_layer(
                zeros(1, batch, width), *weights, state, state, *how
            )
        except Exception:  # this processor has no kernel for the dtype
            return None
    return int(made[3].untyped_storage().nbytes())


def _unknown(what: str, *_: Any) -> str:
    return what


def _corrections() -> dict[Any, Callable[[Any, Any, Any], str | None]]:
    aten = torch.ops.aten
    reductions = {
        "mse_loss": 2,
        "smooth_l1_loss": 2,
        "soft_margin_loss": 2,
        "binary_cross_entropy": 3,
    }
    found: dict[Any, Any] = {
        getattr(aten, name).default: functools.partial(_reduced_loss, place)
        for name, place in reductions.items()
    }
    found[aten._embedding_bag.default] = _embedding_bag
    found[aten.mkldnn_rnn_layer.default] = _recurrent_layer
    for name in ("_cudnn_rnn", "miopen_rnn"):
        each = getattr(aten, name).default
        found[each] = functools.partial(_unknown, "The workspace of a fused RNN")
    return found


_CORRECTIONS = _corrections()
_LAYOUTS = _layouts()
_SEPARATE = {torch.ops.aten.mkldnn_rnn_layer_backward.default: 4}  # the second bias
