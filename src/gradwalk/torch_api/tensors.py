"""Access to private attributes of tensors and modules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

import torch
from torch import nn
from torch.testing._comparison import default_tolerances


def version_of(tensor: torch.Tensor) -> int:
    """Return a tensor's in-place version; 0 for an inference tensor, which has no counter."""
    try:
        return tensor._version
    except RuntimeError:
        if tensor.is_inference():
            return 0
        raise


def versions_of(*tensors: Sequence[torch.Tensor | None]) -> list[int]:
    """Return the in-place version of each tensor, without None.

    Raises:
        RuntimeError: One is an inference tensor, which has no counter.
    """
    return [tensor._version for some in tensors for tensor in some if tensor is not None]


def set_version(tensor: torch.Tensor, version: int) -> None:
    """Set a tensor's in-place version; do nothing for an inference tensor."""
    if tensor.is_inference():
        return
    torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))


def detached(tensor: torch.Tensor) -> torch.Tensor:
    """Detach a tensor so that both share the in-place version counter.

    Below autograd, in a ``TorchDispatchMode``, plain ``detach()`` creates a new counter.
    """
    key = torch._C.DispatchKey.ADInplaceOrView
    excluded = torch._C._dispatch_tls_is_dispatch_key_excluded(key)
    try:
        torch._C._dispatch_tls_set_dispatch_key_excluded(key, False)
        return tensor.detach()
    finally:
        torch._C._dispatch_tls_set_dispatch_key_excluded(key, excluded)


def base_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the base of a view; None for a tensor that is not a view."""
    return tensor._base


def has_hooks_on_grad(leaf: torch.Tensor) -> bool:
    """Whether a leaf has post-accumulate-grad hooks."""
    return bool(leaf._post_accumulate_grad_hooks)


def has_hooks(leaf: torch.Tensor) -> bool:
    """Whether a leaf has any backward hooks."""
    return bool(leaf._backward_hooks) or has_hooks_on_grad(leaf)


def two_norms(tensors: list[torch.Tensor], dtype: torch.dtype | None) -> list[float]:
    """Compute the 2-norms of tensors of one device and dtype, in one call.

    Args:
        tensors: At least one.
        dtype: The dtype to compute in; None for their own.

    Raises:
        RuntimeError: A tensor subclass refuses it, as it may any operation.
        NotImplementedError: Likewise.
    """
    found: list[float] = torch.stack(torch._foreach_norm(tensors, 2, dtype=dtype)).tolist()
    return found


submodules: Callable[[nn.Module], dict[str, nn.Module | None]] = attrgetter("_modules")
"""A module's children by name. Unlike ``named_children`` it repeats shared modules."""

own_parameters: Callable[[nn.Module], dict[str, nn.Parameter | None]] = attrgetter("_parameters")
"""A module's own parameters by name, without those of its children."""

own_buffers: Callable[[nn.Module], dict[str, torch.Tensor | None]] = attrgetter("_buffers")
"""A module's own buffers by name, without those of its children."""


def dtype_of(name: str) -> torch.dtype:
    """Return the dtype with a name such as "torch.float32"."""
    found: torch.dtype = getattr(torch, name.removeprefix("torch."))
    return found


def wider(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype for differences, at least float32: some narrow dtypes cannot be added."""
    is_narrow = dtype.is_floating_point and dtype.itemsize < 4
    is_whole = not (dtype.is_floating_point or dtype.is_complex)
    return torch.float32 if is_narrow or is_whole else dtype


def tolerances(*dtypes: torch.dtype) -> tuple[float, float]:
    """Return rtol and atol of ``torch.testing.assert_close`` for the coarsest of some dtypes.

    Example::

        >>> tolerances(torch.float32, torch.bfloat16)
        (0.016, 1e-05)
    """
    rtol, atol = default_tolerances(*dtypes)
    return float(rtol), float(atol)
