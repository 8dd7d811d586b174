"""Contexts around the backward passes that a program starts under `watch`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import torch

from ..plugins import Hook


class Budget:
    """How many more nodes one watch may record in backward."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes


AROUND_BACKWARD: Hook[
    Callable[[Sequence[torch.Tensor], Budget], contextlib.AbstractContextManager[None]]
] = Hook()
"""Contexts for a backward pass that the program starts from some tensors under `watch`."""
