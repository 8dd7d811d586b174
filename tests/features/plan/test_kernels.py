"""Operators whose fake kernels make less memory than the real ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import torch
from memory_oracle import changes, tracked
from planned_steps import Step, squares
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from gradwalk import plan
from gradwalk.features.plan.copies import Fakes
from gradwalk.features.plan.kernels import _workspace
from gradwalk.features.plan.run_step import _entered
from gradwalk.torch_api.fake_tensors import data_dependent, tensors_in, tree_leaves

LOSSES = ("mse_loss", "binary_cross_entropy", "smooth_l1_loss", "soft_margin_loss", "huber_loss")
LAYERS: list[dict[str, Any]] = [
    {},
    {"num_layers": 2, "bidirectional": True},
    {"batch_first": True},
    {"bias": False},
    {"proj_size": 4},
    {"num_layers": 2, "dropout": 0.5},
]


class First(nn.Module):
    """The sequence that a recurrent layer returns."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0]


def assert_equal_curves(step: Step) -> None:
    found = plan(step.model, step.batch, loss=step.loss)
    peak, curve = tracked(step)
    assert found.lower_bound == found.assumptions == ()
    assert not found.measured
    assert found.peak == peak
    assert changes(found.curve) == curve


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("given", LAYERS, ids=str)
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_count_to_the_byte(kind, given):
    if "proj_size" in given and kind is not nn.LSTM:
        given = {"nonlinearity": "relu"} if kind is nn.RNN else {}
    assert_equal_curves(Step(First(kind(8, 16, **given)), torch.randn(5, 3, 8), squares))


@pytest.mark.parametrize("shape", [(7, 8), (1, 1, 8), (300, 2, 8)])
def test_long_short_and_single_sequences_count_to_the_byte(shape):
    assert_equal_curves(Step(First(nn.LSTM(8, 80)), torch.randn(shape), squares))


def test_layers_in_evaluation_and_without_gradients_count_to_the_byte():
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LSTM(8, 8), nn.LSTM(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                x = self.first(x)[0]
            return self.second(x)[0]

    assert_equal_curves(Step(Two().eval(), torch.randn(5, 3, 8), squares))


def test_the_work_of_a_recurrent_layer_is_that_of_its_products():
    found = plan(First(nn.LSTM(8, 16)), torch.randn(5, 3, 8), loss=squares)
    forward = 2 * 5 * 3 * 4 * 16 * (8 + 16)
    assert (found.flops_forward, found.flops_backward) == (forward, 2 * forward)


def test_the_workspace_is_that_of_the_real_operator():
    numbers = random.Random(0)
    for _ in range(20):
        steps, batch, width, hidden = (numbers.choice([1, 2, 17, 64, 256]) for _ in range(4))
        gates = torch.zeros(4 * hidden, width), torch.zeros(4 * hidden, hidden)
        biases = torch.zeros(4 * hidden), torch.zeros(4 * hidden)
        state = torch.zeros(1, batch, hidden)
        made = torch.ops.aten.mkldnn_rnn_layer(
            torch.zeros(steps, batch, width),
            *(*gates, *biases, state, state),
            *(False, [], 2, hidden, 1, True, False, False, True),
        )
        assert made[3].numel() == _workspace(steps, batch, width, hidden)


def test_a_workspace_that_is_not_known_makes_a_lower_bound(monkeypatch):
    kernels = "gradwalk.features.plan.kernels._real_workspace"
    monkeypatch.setattr(kernels, lambda *_: None)
    found = plan(First(nn.LSTM(8, 16)), torch.randn(5, 3, 8), loss=squares)
    said = "Lower bound: The workspace of an LSTM is not counted."
    assert found.lower_bound == ("The workspace of an LSTM",)
    assert str(found).startswith(f"Peak at least {found.peak}")
    assert said in str(found)
    assert f"peak at least {found.peak}" in found.widget.model["plan"]["summary"]
    assert said in found.widget.model["plan"]["summary"]
    assert repr(found).startswith("Plan(peak at least ")
    advice = found.advise("1GB")
    assert advice.fits is None
    assert "a lower bound, so whether it fits in 954 MiB is unknown" in str(advice)
    assert found.advise(1).fits is False


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_that_are_reduced_in_place_count_to_the_byte(name, reduction):
    target = torch.rand(64, 50)

    def loss(output: torch.Tensor) -> torch.Tensor:
        return getattr(F, name)(output, target, reduction=reduction).sum()

    model = nn.Sequential(nn.Linear(10, 50), nn.Sigmoid())
    found = plan(model, torch.randn(64, 10), loss=loss)
    peak, _ = tracked(Step(model, torch.randn(64, 10), loss))
    assert found.peak == peak


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_embeddings_count_to_the_byte(mode):
    bags = nn.EmbeddingBag(100, 16, mode=mode)
    assert_equal_curves(Step(bags, torch.randint(0, 100, (8, 7)), squares))


class Transposed(nn.Module):
    """Normalizes a tensor whose axes are exchanged, so that the layout decides about copies."""

    def __init__(self, norm: nn.Module, axes: tuple[int, ...]) -> None:
        super().__init__()
        self.norm, self.axes = norm, axes
        self.last = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        back = [self.axes.index(each) for each in range(len(self.axes))]
        return self.last(self.norm(x.permute(self.axes)).permute(back)).transpose(1, 2)


NORMS: dict[str, Any] = {
    "batch": lambda: (nn.BatchNorm1d(8), (0, 2, 1), (4, 5, 8)),
    "batch, channels last": lambda: (nn.BatchNorm2d(8), (0, 3, 1, 2), (2, 5, 6, 8)),
    "batch, other axes": lambda: (nn.BatchNorm2d(8), (1, 3, 0, 2), (5, 2, 6, 8)),
    "layer": lambda: (nn.LayerNorm(8), (1, 0, 2), (5, 4, 8)),
    "group": lambda: (nn.GroupNorm(2, 8), (0, 2, 1), (4, 5, 8)),
    "instance": lambda: (nn.InstanceNorm1d(8, affine=True), (0, 2, 1), (4, 5, 8)),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms_of_exchanged_axes_count_to_the_byte(name):
    norm, axes, shape = NORMS[name]()
    step = Step(Transposed(norm, axes), torch.randn(shape), squares)
    found = plan(step.model, step.batch, loss=step.loss)
    assert not found.measured
    assert found.peak == tracked(step)[0]


@pytest.mark.parametrize("axis", [1, 2])
def test_a_gradient_of_exchanged_axes_counts_to_the_byte(axis):
    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)
            self.pool = nn.AdaptiveAvgPool1d(1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.pool(self.norm(self.first(x)).transpose(1, axis))

    assert_equal_curves(Step(Pooled(), torch.randn(4, 5, 8), squares))


SPARSE = {"aten._sparse_mm_reduce_impl.default"}  # its operand is sparse, which no plan copies


def sizes(values: Any) -> list[Any]:
    """The bytes of each storage of some results, and which of them are the same."""
    keys: dict[int, int] = {}
    found = []
    for each in tree_leaves(values):
        if isinstance(each, torch.Tensor) and each.layout is torch.strided:
            storage = each.untyped_storage()
            found.append((storage.nbytes(), keys.setdefault(storage._cdata, len(keys))))
    return found


class Compared(TorchDispatchMode):
    """Runs each operation also on fake tensors, and collects those with other sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.differ: dict[str, Any] = {}
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        expected = None
        operands = tensors_in((args, kwargs))
        if all(each.layout is torch.strided and not each.is_complex() for each in operands):
            fakes = Fakes()
            copied = fakes.tree((args, kwargs or {}))
            try:
                with _entered(fakes):
                    expected = func(*copied[0], **copied[1])
            except (*data_dependent(), RuntimeError, NotImplementedError):
                expected = None
        result = func(*args, **(kwargs or {}))
        own = {each.untyped_storage()._cdata for each in operands if each.layout is torch.strided}
        made = [each for each in tensors_in(result) if each.layout is torch.strided]
        is_new = all(each.untyped_storage()._cdata not in own for each in made)
        if expected is not None and is_new:
            self.seen.add(str(func))
            if sizes(expected) != sizes(result):
                self.differ[str(func)] = sizes(expected), sizes(result)
        return result


def samples() -> Iterator[Any]:
    from torch.testing._internal.common_methods_invocations import op_db  # noqa: PLC0415

    for info in op_db:
        if torch.float32 in info.supported_dtypes("cpu") and info.supports_autograd:
            for sample in list(info.sample_inputs("cpu", torch.float32, requires_grad=True))[:4]:
                yield lambda info=info, s=sample: info(s.input, *s.args, **s.kwargs)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_fake_kernels_make_as_much_memory_as_real_ones():
    compared = Compared()
    for run in samples():
        with suppress(RuntimeError, AssertionError, AttributeError), compared:
            outputs = [each for each in tensors_in(run()) if each.requires_grad]
            total = sum((abs(each) if each.is_complex() else each).sum() for each in outputs)
            if isinstance(total, torch.Tensor):
                total.backward()
    assert len(compared.seen) > 400
    assert set(compared.differ) <= SPARSE, compared.differ
