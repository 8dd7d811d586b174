"""What torch itself gave, written down beside what the widget shows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class Outputs(TorchFunctionMode):
    """Keeps a copy of what every call gave, by the autograd node it gave it."""

    def __init__(self) -> None:
        self.copies: list[tuple[Any, int, Tensor]] = []
        self.alone: set[Any] = set()  # the nodes of what was given alone

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = result if isinstance(result, (list, tuple)) else [result]
        for each in given:
            if isinstance(each, Tensor) and each.requires_grad and each.grad_fn is not None:
                with torch._C.DisableTorchFunction():
                    self.copies.append((each.grad_fn, each.output_nr, each.detach().clone()))
                    self.alone |= {each.grad_fn} if each is result else set()
        return result
