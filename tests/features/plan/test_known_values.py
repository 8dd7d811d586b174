"""Steps that read values: small ones are kept, likely ones assumed and stated."""

from __future__ import annotations

import pytest
import torch
from memory_oracle import tracked
from planned_steps import Decoder, Step, next_tokens, squares, tokens
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from gradwalk import plan
from gradwalk.features.plan import run_step
from gradwalk.results import Plan
from gradwalk.torch_api.fake_tensors import fake_mode


def assert_exact(step: Step) -> Plan:
    """Plan on fake tensors, to the byte of the real step."""
    found = plan(step.model, step.batch, loss=step.loss)
    peak, _ = tracked(step)
    assert not found.measured
    assert found.peak == peak
    return found


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)


class Masked(Layer):
    """Skips a mask that hides nothing, as libraries do, unless it is traced."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.layer(x)
        fake = getattr(torch, "_subclasses").FakeTensor  # noqa: B009  as transformers asks
        if isinstance(mask, fake) or torch.jit.is_tracing() or not mask.bool().all():
            wide = (mask[:, None] * mask[None]).bool()
            x = x + torch.where(wide, 0.0, -1.0) @ x
        return x


@pytest.mark.parametrize("hidden", [0, 5])
def test_a_mask_is_skipped_where_the_real_step_skips_it(hidden):
    mask = torch.ones(64, dtype=torch.long)
    mask[:hidden] = 0
    found = assert_exact(Step(Masked(), (torch.randn(64, 16), mask), squares))
    assert found.assumptions == ()


def test_fake_tensors_are_fake_again_afterwards():
    plan(Masked(), (torch.randn(4, 16), torch.ones(4)), loss=squares)
    with fake_mode():
        assert isinstance(torch.ones(2), getattr(torch, "_subclasses").FakeTensor)  # noqa: B009


class Lengths(Layer):
    def forward(self, x: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        parts = self.layer(x).split(sizes.tolist())
        count = int((sizes * 2).sum()) // 2
        return sum(part.pow(2).sum() for part in parts) + count


class Chosen(Layer):
    def forward(self, x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[chosen].pow(2).sum()


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(16, 8, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        alphabet = F.log_softmax(self.layer(x)[0].transpose(0, 1), -1)
        targets = torch.ones(x.shape[0], 2, dtype=torch.long)
        lengths = torch.full((x.shape[0],), x.shape[1]), torch.full((x.shape[0],), 2)
        return F.ctc_loss(alphabet, targets, *lengths)


class Distinct(Layer):
    def forward(self, x: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        distinct = codes.unique()
        return self.layer(x)[distinct].repeat_interleave(codes[: len(distinct)], 0).pow(2).sum()


READING = {
    "lengths": lambda: Step(Lengths(), (torch.randn(8, 16), torch.tensor([3, 5]))),
    "indices": lambda: Step(Chosen(), (torch.randn(8, 16), torch.tensor([0, 1] * 4) > 0)),
    "ctc": lambda: Step(Packed(), torch.randn(2, 9, 16)),
    "unique": lambda: Step(Distinct(), (torch.randn(8, 16), torch.tensor([1, 2, 2, 3]))),
}


@pytest.mark.parametrize("name", READING)
def test_shapes_that_depend_on_small_inputs_are_known(name):
    assert assert_exact(READING[name]()).assumptions == ()


class Guarded(Layer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        if not torch.isfinite(y).all():
            raise ValueError("not finite")
        if torch.isnan(y).any() or torch.isinf(y).any():
            y = y.clamp(-1, 1)
        return torch.distributions.Normal(y, y.exp(), validate_args=True).rsample()


def test_guards_are_assumed_to_pass_and_stated():
    found = assert_exact(Step(Guarded(), torch.randn(4, 16), squares))
    said = "\n".join(found.assumptions)
    assert (
        "(if not torch.isfinite(y).all():) reads a value of a tensor, which is taken as True"
        in said
    )
    assert "(if torch.isnan(y).any() or torch.isinf(y).any():) reads" in said
    assert "Normal(y, y.exp(), validate_args=True)" in said
    assert len(found.assumptions) == 3
    assert all(f"Assumed: {each}" in str(found) for each in found.assumptions)
    assert found.assumptions[0] in found.widget.model["plan"]["summary"]


class Opposite(Layer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        if not (y.abs() > 1e9).any():
            return y
        raise ValueError("too large")


class Wrong(Layer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        if not (y < 0).any():
            raise ValueError("no negative number")
        return y


@pytest.mark.parametrize(("kind", "value"), [(Opposite, "False"), (Wrong, "True")])
def test_an_assumption_that_ends_with_an_error_is_turned_round(kind, value):
    found = plan(kind().to("meta"), torch.randn(4, 16), loss=squares)
    assert [each.rpartition(" ")[2] for each in found.assumptions] == [f"{value}."]
    assert found.apply(found.advise(1)).peak == found.peak


class Clipped(Layer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        return y * min(1.0, 1 / y.norm().item())


class Halting(Layer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(5):
            x = self.layer(x).tanh()
            if x.abs().max() < 10:
                break
        return x


@pytest.mark.parametrize("kind", [Clipped, Halting])
def test_a_value_that_nothing_speaks_for_is_measured_where_that_is_cheap(kind, monkeypatch):
    model, x = kind(), torch.randn(4, 16)
    found = plan(model, x, loss=squares)
    assert found.measured
    assert found.peak == tracked(Step(model, x, squares))[0]
    assert "reads a value of a tensor." in found.remarks[0]
    monkeypatch.setattr(run_step, "_FEW_FLOPS", 0)
    assumed = plan(model, x, loss=squares)
    assert not assumed.measured
    assert len(assumed.assumptions) == 1


class Changing(Layer):
    """Writes to known tensors, through views and with unknown values."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        counts = torch.zeros(4, dtype=torch.long)
        view = counts[1:3]
        view += 2
        counts.view(2, 2)[1, 0] = 5
        assert counts.tolist() == [0, 2, 5, 0]
        counts[0] = self.layer(x).argmax()
        return self.layer(x) * int(view[0])


def test_a_known_tensor_that_gets_an_unknown_value_is_unknown():
    with pytest.raises(RuntimeError, match=r"int\(view\[0\]\)\), in Changing needs the values"):
        plan(Changing().to("meta"), torch.randn(4, 16), loss=squares)


def test_values_of_the_user_stay():
    known = torch.tensor([1, 2])

    class Writing(Layer):
        def forward(self, x: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
            given.mul_(3)
            known.view(2, 1).add_(1)
            assert given.tolist() == [9, 12]
            return self.layer(x)

    given = torch.tensor([3, 4])
    found = plan(Writing(), (torch.randn(4, 16), given), loss=squares)
    assert (given.tolist(), known.tolist()) == ([3, 4], [1, 2])
    assert not found.measured


def test_loops_that_wait_for_another_answer_end():
    class Endless(Layer):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            while not (x > 1e9).any():
                x = self.layer(x)
            return x

    with pytest.raises(RuntimeError, match="while not"):
        plan(Endless().to("meta"), torch.randn(4, 16), loss=squares)


def test_plans_without_reading_have_no_assumptions():
    found = plan(Decoder(blocks=1), tokens(2, 8), loss=next_tokens, optimizer=torch.optim.AdamW)
    assert (found.assumptions, found.remarks, found.measured) == ((), (), False)


def test_packed_sequences_are_measured():
    class Sequences(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.GRU(16, 8, batch_first=True)

        def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            return pad_packed_sequence(self.layer(packed)[0])[0].pow(2).mean()

    found = plan(Sequences(), (torch.randn(3, 9, 16), torch.tensor([9, 3, 5])))
    assert found.measured
