"""What ``torch.func`` puts around tensors, level by level, and what is in it.

Within ``grad``, ``vmap``, ``jacrev`` or ``hessian`` a tensor is a wrapper: of one that autograd
records apart from all others, or of one that has a dimension more than the program sees.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_functorch = torch._C._functorch


def transforms_around(tensor: torch.Tensor | None) -> tuple[str, ...]:
    """The transforms that a tensor is of, the outermost first: "vmap over 2", "grad".

    Args:
        tensor: A tensor, asked for while they run; None is of none.
    """
    if tensor is None or not _functorch.is_functorch_wrapped_tensor(tensor):
        return ()
    found = []
    for level in _functorch.get_interpreter_stack() or ():
        if level.level() > _functorch.maybe_get_level(tensor):
            break  # it was made outside of the others
        kind = level.key()
        if kind == _functorch.TransformType.Vmap:
            size = _functorch.CVmapInterpreterPtr(level).batchSize()
            found.append(f"vmap over {size}")
        else:
            found.append(str(kind.name).lower())
    return tuple(found)


def unwrapped(tensor: torch.Tensor) -> tuple[torch.Tensor, list[int]] | None:
    """What is within a wrapper of ``torch.func``; None for every other tensor.

    Args:
        tensor: A tensor, also one whose transform has ended.

    Returns:
        The plain tensor, and the sizes of the dimensions that the program does not see.
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
    """A tensor, and what is within it layer by layer while ``torch.func`` wraps it."""
    yield tensor
    while _functorch.is_functorch_wrapped_tensor(tensor):
        tensor = _functorch.get_unwrapped(tensor)
        yield tensor


@contextmanager
def without_transforms() -> Iterator[None]:
    """Within it no transform sees what torch is asked to do with plain tensors."""
    with torch._C._DisableFuncTorch():
        yield
