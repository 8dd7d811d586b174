"""Following changes no weight: bit for bit, for each way to train."""

from __future__ import annotations

import contextlib
import functools
import random

import fresh
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from gradwalk import follow

STEPS = 200


class Net(nn.Module):
    def __init__(self, checkpoints=None):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.norm, self.drop = nn.BatchNorm1d(16), nn.Dropout(0.1)
        self.body, self.head = nn.Linear(16, 16), nn.Linear(16, 20)
        self.checkpoints = checkpoints

    def block(self, hidden):
        return self.drop(self.body(hidden)).relu()

    def forward(self, x):
        hidden = self.norm(self.embed(x))
        if self.checkpoints is None:
            hidden = self.block(hidden)
        else:
            hidden = checkpoint(self.block, hidden, use_reentrant=self.checkpoints)
        return self.head(hidden)


def plain(net, optimizer):
    for _ in range(STEPS):
        x = torch.randint(0, 20, (8,))
        optimizer.zero_grad()
        functional.cross_entropy(net(x), x).backward()
        optimizer.step()


def clipped(net, optimizer):
    for _ in range(STEPS):
        x = torch.randint(0, 20, (8,))
        optimizer.zero_grad()
        functional.cross_entropy(net(x), x).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()


def accumulated(net, optimizer):
    for i in range(STEPS):
        x = torch.randint(0, 20, (8,))
        (functional.cross_entropy(net(x), x) / 4).backward()
        if i % 4 == 3:
            optimizer.step()
            optimizer.zero_grad(set_to_none=i % 8 == 3)


def mixed(net, optimizer, dtype):
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=10)
    for _ in range(STEPS):
        x = torch.randint(0, 20, (8,))
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype):
            loss = functional.cross_entropy(net(x), x)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


def averaged(net, optimizer):
    average = torch.optim.swa_utils.AveragedModel(
        net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )
    for _ in range(STEPS):
        x = torch.randint(0, 20, (8,))
        optimizer.zero_grad()
        functional.cross_entropy(net(x), x).backward()
        optimizer.step()
        average.update_parameters(net)
    net.register_module("average", average)


def given_by_grad(net, optimizer):
    parameters = list(net.parameters())
    for _ in range(STEPS):
        x = torch.randint(0, 20, (8,))
        loss = functional.cross_entropy(net(x), x)
        for each, grad in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            each.grad = grad
        optimizer.step()


def with_closure(net, optimizer):
    for _ in range(STEPS // 10):
        x = torch.randint(0, 20, (8,))

        def closure(x=x):
            optimizer.zero_grad()
            loss = functional.cross_entropy(net(x), x)
            loss.backward()
            return loss

        optimizer.step(closure)


def sgd(parameters):
    return torch.optim.SGD(parameters, 0.1, momentum=0.9, weight_decay=1e-3)


def adamw(**more):
    return lambda parameters: torch.optim.AdamW(parameters, 1e-2, **more)


WAYS = {
    "sgd": (plain, sgd, None),
    "adamw foreach": (plain, adamw(foreach=True), None),
    "adamw fused": (plain, adamw(fused=True), None),
    "adamw single": (plain, adamw(foreach=False), None),
    "clipped": (clipped, sgd, None),
    "accumulated": (accumulated, sgd, None),
    "bfloat16": (functools.partial(mixed, dtype=torch.bfloat16), sgd, None),
    "float16, fused": (functools.partial(mixed, dtype=torch.float16), adamw(fused=True), None),
    "averaged": (averaged, sgd, None),
    "checkpoints": (plain, sgd, False),
    "reentrant checkpoints": (plain, sgd, True),
    "autograd.grad": (given_by_grad, sgd, None),
    "closure": (with_closure, lambda p: torch.optim.LBFGS(p, 0.1, max_iter=3), None),
}


def state_after(way, follows):
    loop, optimizer_of, checkpoints = WAYS[way]
    torch.manual_seed(0)
    random.seed(0)
    net = Net(checkpoints)
    optimizer = optimizer_of(net.parameters())
    with follow(net, optimizer) if follows else contextlib.nullcontext() as run:
        loop(net, optimizer)
    state = [*net.state_dict().values(), *(p.grad for p in net.parameters())]
    for each in optimizer.state.values():
        state += [value for value in each.values() if isinstance(value, torch.Tensor)]
    return state, torch.get_rng_state(), random.getstate(), run


@pytest.mark.parametrize("way", WAYS)
def test_weights_states_and_random_numbers_are_the_same(way):
    without, with_ = state_after(way, False), state_after(way, True)
    assert len(without[0]) == len(with_[0])
    for one, other in zip(without[0], with_[0], strict=True):
        assert (one is None and other is None) or torch.equal(one, other)
    assert torch.equal(without[1], with_[1])
    assert without[2] == with_[2]
    assert with_[3].findings == []
    assert with_[3].as_json()["notes"] == []
    assert with_[3].steps


DISTRIBUTED = """
import os, socket
import torch.multiprocessing as processes
from torch import distributed, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from gradwalk import follow

def worker(rank, port, follows, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    distributed.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    wrapped = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(wrapped.parameters(), 1e-2)
    torch.manual_seed(rank + 1)
    def loop():
        for _ in range(200):
            x = torch.randn(8, 4)
            optimizer.zero_grad()
            wrapped(x).square().mean().backward()
            optimizer.step()
    if follows:
        with follow(wrapped, optimizer) as run:
            loop()
        assert run.findings == [] and run.as_json()["notes"] == [], str(run)
        assert "4 of 4 trainable" in str(run), str(run)
    else:
        loop()
    results.put((rank, [p.detach().flatten().tolist() for p in net.parameters()]))
    distributed.barrier()
    distributed.destroy_process_group()

def after(follows):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = processes.get_context("fork")
    results = context.SimpleQueue()
    started = [
        context.Process(target=worker, args=(rank, port, follows, results)) for rank in range(2)
    ]
    for each in started:
        each.start()
    found = dict(results.get() for _ in started)
    for each in started:
        each.join()
        assert each.exitcode == 0
    return found

assert after(False) == after(True)
print("the same")
"""


def test_two_processes_end_with_the_same_weights():
    assert fresh.fresh(DISTRIBUTED).strip() == "the same"


def test_a_compiled_model_ends_with_the_same_weights():
    assert fresh.fresh(COMPILED).strip() == "the same"


COMPILED = """
from gradwalk import follow
from torch import nn
import contextlib

def after(follows):
    torch._dynamo.reset()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    compiled = torch.compile(net, backend="aot_eager")
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    with follow(net, optimizer) if follows else contextlib.nullcontext() as run:
        for _ in range(200):
            optimizer.zero_grad()
            compiled(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
    if follows:
        assert run.findings == [] and run.as_json()["notes"] == [], str(run)
    return [p.detach() for p in net.parameters()]

assert all(map(torch.equal, after(False), after(True)))
print("the same")
"""
