"""Graphs of torch's own operator and module databases, as outputs that require grad."""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.testing._internal import common_utils
from torch.utils._pytree import tree_leaves

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db

DTYPES = (torch.float64, torch.complex128)


def seed(number: int) -> None:
    """Seed what samples are drawn from, on the CPU.

    ``torch.manual_seed`` also notes for CUDA, XPU and MTIA, which are not there, where in the
    program it was called: a text of the whole stack each time, and torch seeds before each sample.
    """
    torch.default_generator.manual_seed(number)
    random.seed(number)
    np.random.seed(number)


common_utils.set_rng_seed = seed
# It looks through the source of every caller for a unittest.TestCase, for each operator: there is
# none, and below pytest that is most of the time that drawing takes.
common_utils.extract_test_fn = lambda: None


@dataclass(frozen=True)
class Unit:
    """One operator or module class, in one way of calling it.

    Attributes:
        info: torch's own description of it.
        dtype: Of the samples.
        way: "" for the operator itself, "in place" for its twin, "train" or "eval" for a module.
    """

    info: Any
    dtype: torch.dtype
    way: str = ""

    @property
    def name(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        called = getattr(self.info, "formatted_name", None) or self.info.name
        return "-".join(filter(None, (called, dtype, self.way)))

    @property
    def is_module(self) -> bool:
        return self.way in {"train", "eval"}

    def graphs(self, most: int = 8, numbers: int = 400) -> Iterator[list[torch.Tensor]]:
        """The outputs that require grad, for each of the first small samples that torch accepts.

        Args:
            most: How many samples are tried.
            numbers: How many numbers an input may have.
        """
        seed(0)
        calls = self._of_module() if self.is_module else self._of_operator()
        for call, given in itertools.islice(calls, most):
            if any(isinstance(t, torch.Tensor) and t.numel() > numbers for t in tree_leaves(given)):
                continue
            try:
                found = call()
            except Exception:  # torch refuses its own sample without a CUDA device, for example
                continue
            tensors = [
                each
                for each in tree_leaves(found)
                if isinstance(each, torch.Tensor) and each.grad_fn is not None
            ]
            if tensors:
                yield tensors

    def _of_operator(self) -> Iterator[tuple[Any, Any]]:
        for sample in self.info.sample_inputs("cpu", self.dtype, requires_grad=True):
            if self.way == "in place":
                if sample.broadcasts_input:
                    continue

                def call(sample=sample):
                    start = sample.input.clone()
                    return self.info.inplace_variant(start, *sample.args, **sample.kwargs)
            else:

                def call(sample=sample):
                    return self.info(sample.input, *sample.args, **sample.kwargs)

            yield call, (sample.input, sample.args, sample.kwargs)

    def _of_module(self) -> Iterator[tuple[Any, Any]]:
        training = self.way == "train"
        samples = self.info.module_inputs_func(
            self.info, device="cpu", dtype=self.dtype, requires_grad=True, training=training
        )
        for sample in samples:
            if sample.forward_input is None:
                continue

            def call(sample=sample):
                made = sample.constructor_input
                module = self.info.module_cls(*made.args, **made.kwargs).to(self.dtype)
                given = sample.forward_input
                return module.train(training)(*given.args, **given.kwargs)

            yield call, (sample.forward_input.args, sample.forward_input.kwargs)


def operators() -> list[Unit]:
    """Every differentiable operator of torch's database, in each dtype."""
    return [
        Unit(op, dtype)
        for dtype in DTYPES
        for op in op_db
        if dtype in op.supported_backward_dtypes("cpu")
    ]


def everything() -> list[Unit]:
    """The operators, their in-place twins, and the modules in training and in evaluation."""
    plain = operators()
    twins = [
        Unit(each.info, each.dtype, "in place")
        for each in plain
        if each.info.inplace_variant is not None and each.dtype == torch.float64
    ]
    modules = [
        Unit(info, torch.float64, way)
        for info in module_db
        if torch.float64 in info.supported_dtypes("cpu")
        for way in ("train", "eval")
    ]
    return plain + twins + modules
