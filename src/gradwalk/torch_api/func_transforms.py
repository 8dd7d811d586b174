"""Read the wrappers that ``torch.func`` puts around tensors.

Within ``grad``, ``vmap``, ``jacrev`` or ``hessian`` a tensor is a wrapper. The inner tensor has its
own autograd graph, or a dimension that the program does not see.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_functorch = torch._C._functorch


def transforms_around(tensor: torch.Tensor | None) -> tuple[str, ...]:
    """Return the active transforms of a tensor, outermost first: "vmap over 2", "grad".

    Args:
        tensor: A tensor; None has no transforms.
    """
    if tensor is None or not _functorch.is_functorch_wrapped_tensor(tensor):
        return ()
    found = []
    for level in _functorch.get_interpreter_stack() or ():
        if level.level() > _functorch.maybe_get_level(tensor):
            break  # it was created outside the inner ones
        kind = level.key()
        if kind == _functorch.TransformType.Vmap:
            size = _functorch.CVmapInterpreterPtr(level).batchSize()
            found.append(f"vmap over {size}")
        else:
            found.append(str(kind.name).lower())
    return tuple(found)


def unwrapped(tensor: torch.Tensor) -> tuple[torch.Tensor, list[int]] | None:
    """Unwrap a tensor of ``torch.func``; return None for every other tensor.

    Args:
        tensor: A tensor; its transform may have ended.

    Returns:
        The plain tensor, and the sizes of the hidden dimensions.
    """
    if not _functorch.is_functorch_wrapped_tensor(tensor):
        return None
    sizes: list[int] = []
    while _functorch.is_functorch_wrapped_tensor(tensor):
        place = _functorch.maybe_get_bdim(tensor)
        is_batched = _functorch.is_batchedtensor(tensor)
        tensor = _functorch.get_unwrapped(tensor)
        if is_batched:
            sizes.append(int(tensor.shape[place]))
    return tensor, sizes


def layers(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield a tensor, and the tensors inside its ``torch.func`` wrappers."""
    yield tensor
    while _functorch.is_functorch_wrapped_tensor(tensor):
        tensor = _functorch.get_unwrapped(tensor)
        yield tensor


@contextmanager
def without_transforms() -> Iterator[None]:
    """Return a context in which transforms do not see operations on plain tensors."""
    with torch._C._DisableFuncTorch():
        yield
