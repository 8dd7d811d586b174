"""A plan of one of several ranks counts what each of two real ranks has."""

from __future__ import annotations

import ast

import pytest
import torch
from planned_steps import Decoder, Step, next_tokens, tokens
from processes import together
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from gradwalk import plan
from gradwalk.results import Plan

pytestmark = pytest.mark.one_python

CASES = [
    (recomputed, optimizer)
    for recomputed in (range(0), range(4))
    for optimizer in (None, torch.optim.AdamW)
]

REAL = """
from planned_steps import Decoder, next_tokens, tokens
from torch.distributed.fsdp import MixedPrecisionPolicy
from gradwalk.features.plan.recorder import STEP, Recorder


def begin_step(model, batch, optimizer):
    recorder = Recorder(model.named_modules())
    for name, parameter in model.named_parameters():
        recorder.note("parameter", name, parameter)
    recorder.note("input", "batch", batch)
    for state in optimizer.state.values() if optimizer else ():
        for key, value in state.items():
            recorder.note("optimizer state", key, value)
    return recorder


mixed = torch.bfloat16, torch.float32


def peak_of(recomputed, make, **policy):
    torch.manual_seed(0)
    model, batch = Decoder(blocks=4, recomputed=recomputed), tokens(2, 24)
    for layer in model.layers:
        fully_shard(layer, **policy)
    fully_shard(model, **policy)
    optimizer = make(model.parameters()) if make else None
    peaks = []
    for _ in range(6):
        recorder = begin_step(model, batch, optimizer)
        with recorder.recording():
            loss = next_tokens(model(batch), batch)
            loss.backward()
            if optimizer:
                recorder.phase = STEP
                optimizer.step()
        model.zero_grad()
        del loss
        peaks.append(max(each.live for each in recorder.operations))
    return min(peaks[1:])  # on a busy machine a collective may free its buffers late


def work(rank):
    found = [
        peak_of(recomputed, make)
        for recomputed in (range(0), range(4))
        for make in (None, torch.optim.AdamW)
    ]
    found.append(peak_of(range(0), None, mp_policy=MixedPrecisionPolicy(*mixed)))
    if rank == 0:
        print(found, flush=True)


on_ranks(work)
"""


def sharded(model: nn.Module) -> None:
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)


def sharded_in_mixed_precision(model: nn.Module) -> None:
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    for layer in model.layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)


def planned(step: Step, ranks: int = 2) -> Plan:
    return plan(
        step.model,
        step.batch,
        loss=step.loss,
        optimizer=step.optimizer,
        ranks=ranks,
        shard=sharded,
    )


def test_peaks_are_those_of_two_real_ranks():
    peaks = [
        planned(Step(Decoder(blocks=4, recomputed=r), tokens(2, 24), next_tokens, make)).peak
        for r, make in CASES
    ]
    given = Decoder(blocks=4), tokens(2, 24)
    mixed = plan(*given, loss=next_tokens, ranks=2, shard=sharded_in_mixed_precision)
    peaks.append(mixed.peak)
    assert peaks == ast.literal_eval(together(REAL))


def test_the_model_stays_whole_and_no_group_is_left():
    model = Decoder(blocks=2)
    before = {name: (type(module), id(module)) for name, module in model.named_modules()}
    found = planned(Step(model, tokens(2, 24), next_tokens), ranks=64)
    assert {n: (type(m), id(m)) for n, m in model.named_modules()} == before
    assert all(type(each) is nn.Parameter for each in model.parameters())
    assert not torch.distributed.is_initialized()
    assert found.ranks == 64
    assert "on each of 64 ranks" in str(found)
    assert found.parameters < sum(each.nbytes for each in model.parameters()) / 16


def test_advice_holds_for_a_sharded_model():
    before = planned(Step(Decoder(blocks=5), tokens(4, 128), next_tokens))
    advice = before.advise(int(0.7 * before.peak))
    after = before.apply(advice)
    assert advice.blocks
    assert advice.peak == pytest.approx(after.peak, rel=0.03)
    assert advice.extra_flops == after.flops - before.flops


def test_only_one_of_ranks_and_shard_is_refused():
    for given in ({"ranks": 2}, {"shard": sharded}):
        with pytest.raises(ValueError, match="only one of ranks and shard"):
            plan(nn.Linear(4, 4), torch.ones(2, 4), loss=torch.sum, **given)
