"""`Plan.advise`: predictions against new plans, choices against all subsets, code against grads."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from planned_steps import STEPS, Decoder, Step, next_tokens, squares, tokens
from torch import nn

from gradwalk import plan
from gradwalk.amounts import Bytes, Flops, read_bytes
from gradwalk.features.plan.advice import code_for
from gradwalk.result import make
from gradwalk.results import Advice, Plan

BUDGETS = (0.75, 0.5, 0.3)


class Residual(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.Conv2d(after, after, 3, padding=1)
        )
        self.skip = nn.Conv2d(before, after, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.body(x) + self.skip(x)).relu()


def pictures() -> Step:
    widths = [3, 8, 8, 16, 16, 4]
    blocks = [Residual(a, b) for a, b in itertools.pairwise(widths)]
    return Step(nn.Sequential(*blocks), torch.randn(2, 3, 32, 32), squares)


def several_widths() -> Step:
    return Step(Decoder(blocks=6, inner=(64, 256, 128)), tokens(4, 64), next_tokens)


def with_optimizer() -> Step:
    return Step(Decoder(blocks=5), tokens(4, 128), next_tokens, torch.optim.AdamW)


def recurrent() -> Step:
    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(16)
            self.layer = nn.GRU(16, 16, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.layer(self.norm(x))[0]

    return Step(nn.Sequential(*(Rows() for _ in range(3))), torch.randn(4, 16, 16), squares)


EXAMPLES = [pictures, several_widths, with_optimizer, recurrent]


def planned(step: Step) -> Plan:
    return plan(step.model, step.batch, loss=step.loss, optimizer=step.optimizer)


def chosen(blocks: tuple[str, ...]) -> Advice:
    """Advice to checkpoint given blocks."""
    nothing = Bytes(0)
    return make(
        Advice, nothing, blocks, nothing, nothing, Flops(0), True, code_for(blocks), None, ()
    )


def every_subset(before: Plan, blocks: tuple[str, ...]) -> dict[tuple[str, ...], Plan]:
    subsets = [s for i in range(len(blocks) + 1) for s in itertools.combinations(blocks, i)]
    return {subset: before.apply(chosen(subset)) for subset in subsets}


def names_of(step: Step) -> tuple[str, ...]:
    layers = getattr(step.model, "layers", step.model)
    prefix = "layers." if layers is not step.model else ""
    return tuple(f"{prefix}{i}" for i in range(len(layers)))


def test_the_predicted_peak_and_work_are_those_of_the_new_plan():
    step = Step(Decoder(blocks=3), tokens(2, 24), next_tokens)
    before = planned(step)
    least = min(each.peak for each in every_subset(before, names_of(step)).values())
    for budget in (before.peak, int(0.9 * before.peak), int(0.8 * before.peak), least, 1):
        advice = before.advise(budget)
        after = before.apply(advice)
        assert advice.peak == pytest.approx(after.peak, rel=0.03)
        assert advice.extra_flops == after.flops - before.flops
        assert advice.fits == (advice.peak <= budget)
    assert before.advise(before.peak).blocks == ()
    assert before.advise(1).peak == pytest.approx(least, rel=0.03)


@pytest.mark.full
@pytest.mark.parametrize("make", EXAMPLES)
def test_choices_are_as_good_as_the_best_of_all_subsets(make):
    step = make()
    before = planned(step)
    plans = every_subset(before, names_of(step))
    least = min(each.peak for each in plans.values())
    for part in BUDGETS:
        advice = before.advise(int(part * before.peak))
        after = plans[advice.blocks]
        assert advice.peak == pytest.approx(after.peak, rel=0.03)
        assert advice.extra_flops == pytest.approx(after.flops - before.flops, rel=0.001)
        if advice.fits:
            fitting = [each.flops for each in plans.values() if each.peak <= advice.budget]
            assert after.peak <= 1.03 * advice.budget
            assert after.flops <= 1.05 * min(fitting, default=after.flops)
        else:
            assert after.peak <= 1.05 * least


@pytest.mark.parametrize("make", [several_widths, pictures])
def test_the_code_gives_bit_equal_gradients(make):
    step = make()
    advice = planned(step).advise(int(0.6 * planned(step).peak))
    assert advice.blocks
    model = copy.deepcopy(step.model)
    exec(advice.code, {"model": model})
    for each in (step.model, model):
        output = each(step.batch)
        (step.loss(output) if make is pictures else step.loss(output, step.batch)).backward()
    pairs = zip(step.model.parameters(), model.parameters(), strict=True)
    assert all(torch.equal(a.grad, b.grad) for a, b in pairs)


class Stage(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            Residual(before, after), *(Residual(after, after) for _ in range(3))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def test_blocks_inside_of_stages_are_chosen_where_they_are_better():
    widths = [3, 16, 16]
    model = nn.Sequential(*(Stage(a, b) for a, b in itertools.pairwise(widths)))
    before = planned(Step(model, torch.randn(2, 3, 32, 32), squares))
    advice = before.advise(int(0.9 * before.peak))
    assert advice.fits
    assert len(advice.blocks) < 8
    assert all(".layers." in name for name in advice.blocks)
    assert before.apply(advice).peak == pytest.approx(advice.peak, rel=0.03)


def test_many_blocks_are_chosen_without_trying_all():
    model = Decoder(blocks=20, inner=(64, 128))
    before = plan(model, tokens(4, 64), loss=next_tokens)
    advice = before.advise(int(0.6 * before.peak))
    assert advice.fits
    assert before.apply(advice).peak == pytest.approx(advice.peak, rel=0.03)
    assert advice.chen.count == 4
    assert advice.chen.extra_flops > advice.extra_flops


def test_chens_rule_is_that_of_checkpointed_segments():
    class Segmented(Decoder):
        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            x = self.embed(tokens)
            for i in range(0, 9, 3):
                part = nn.Sequential(*self.layers[i : i + 3])
                x = torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False)
            return self.head(self.norm(x))

    given = {"blocks": 9, "inner": (128,)}
    batch = tokens(4, 64)
    before = plan(Decoder(**given), batch, loss=next_tokens)
    after = plan(Segmented(**given), batch, loss=next_tokens)
    chen = before.advise(1).chen
    assert chen.count == 3
    assert chen.peak == pytest.approx(after.peak, rel=0.03)
    assert chen.extra_flops == after.flops - before.flops


def test_compiled_blocks_are_left_alone():
    step = several_widths()
    step.model.layers[1].compile(backend="eager")
    advice = planned(step).advise(1)
    assert "layers.1" not in advice.blocks
    assert "layers.0" in advice.blocks
    assert advice.notes[0].startswith("Left alone: layers.1. torch.compile chooses")


def test_batch_norms_are_mentioned():
    blocks = [nn.Sequential(nn.Conv1d(4, 4, 3), nn.BatchNorm1d(4), nn.Tanh()) for _ in range(3)]
    found = plan(nn.Sequential(*blocks), torch.randn(8, 4, 99), loss=squares).advise(1)
    assert found.blocks
    assert "running statistics twice" in str(found)


def test_blocks_that_are_checkpointed_already_are_not_advised():
    found = planned(STEPS["recomputed"]()).advise(1)
    assert found.blocks == ()
    assert not found.fits
    assert found.code == ""


def test_a_model_without_blocks_gets_no_advice():
    advice = plan(nn.Linear(4, 4), torch.ones(2, 4), loss=torch.sum).advise("1 kB")
    assert advice.blocks == ()
    assert advice.fits
    assert "No block to checkpoint" in str(advice)


@pytest.mark.parametrize(
    ("names", "listed"),
    [
        (("a",), '["a"]'),
        (("layers.0", "layers.1"), '[f"layers.{i}" for i in range(2)]'),
        (("m.3.b", "m.5.b", "z"), '[*[f"m.{i}.b" for i in (3, 5)], "z"]'),
    ],
)
def test_the_code_lists_names_shortly(names, listed):
    code = code_for(names)
    assert f"for name in {listed}:" in code
    assert eval(listed) == list(names)


@pytest.mark.parametrize(
    ("given", "amount"),
    [("40GB", 40 * 10**9), ("80 GiB", 80 * 2**30), ("1.5kb", 1500), (7, 7), ("1,000 B", 1000)],
)
def test_budgets_are_read(given, amount):
    assert read_bytes(given) == amount


@pytest.mark.parametrize("given", ["", "much", "24", "-3 GB", "3 apples", 0, -1, float("nan")])
def test_budgets_without_an_amount_are_refused(given):
    with pytest.raises(ValueError, match="budget was given"):
        read_bytes(given)
    with pytest.raises(TypeError, match="budget was given a NoneType"):
        read_bytes(None)


def test_the_advice_says_what_is_to_spare_and_what_a_gigabyte_is():
    found = plan(nn.Linear(4, 4), torch.ones(2, 4), loss=torch.sum)
    text = str(found.advise("24GB"))
    assert "it fits in 22.4 GiB with 22.4 GiB to spare" in text
    assert "24 GB is 22.4 GiB. A card that is sold with 24 GB has about 24 GiB" in text
    assert "is sold with" not in str(found.advise("24GiB"))
    assert "to spare is little" not in text
    with torch.device("meta"):
        large = nn.Linear(30_000, 30_000, bias=False)
    tight = plan(large, torch.ones(2, 30_000, device="meta"), loss=torch.sum)
    assert "to spare is little" in str(tight.advise(tight.peak + 2**20))


def test_amounts_are_printed_with_units():
    assert [str(Bytes(n)) for n in (0, 1023, 1024, 57.4 * 2**30)] == [
        "0 B",
        "1023 B",
        "1.00 KiB",
        "57.4 GiB",
    ]
    assert [str(Flops(n)) for n in (0, 999, 2 * 10**6, 1.3e18)] == [
        "0 FLOP",
        "999 FLOP",
        "2.00 MFLOP",
        "1.30 EFLOP",
    ]


def test_a_cache_of_keys_is_noted():
    class Output(dict):
        past_key_values = (1,)

    class Cached(Decoder):
        def forward(self, x):
            return Output(logits=super().forward(x))

    def loss(output, batch):
        return next_tokens(output["logits"], batch)

    advice = plan(Cached(blocks=3), tokens(2, 64), loss=loss).advise(1)
    assert any("use_cache = False" in note for note in advice.notes)
    assert "use_cache" not in str(
        plan(Decoder(blocks=3), tokens(2, 64), loss=next_tokens).advise(1)
    )
