"""The step that went wrong is run again: births as torch's own, and nothing else changes."""

from __future__ import annotations

import contextlib
import math
import random
import re
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional

from gradwalk import follow

BAD = 4  # the step that goes wrong


class Net(nn.Module):
    """Dropout, batch norm, and an operation that the bad step uses."""

    def __init__(self, odd=None):
        super().__init__()
        self.body, self.norm = nn.Linear(4, 8), nn.BatchNorm1d(8)
        self.drop, self.head = nn.Dropout(0.2), nn.Linear(8, 3)
        self.odd = odd
        self.calls = 0

    def forward(self, x, is_bad=False):
        self.calls += 1
        hidden = self.drop(self.norm(self.body(x)).relu())
        if is_bad and self.odd is not None:
            hidden = self.odd(hidden)
        return {"logits": self.head(hidden)}


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(2, 8, dropout=0.1, num_layers=2), nn.Linear(8, 3)

    def forward(self, x, is_bad=False):
        hidden = self.rnn(x.unflatten(1, (2, 2)).transpose(0, 1))[0][-1]
        if is_bad:
            hidden = hidden + (hidden * 0).norm(dim=1, keepdim=True).sqrt() * 0
        return {"logits": self.head(hidden)}


class FocalLoss(nn.Module):
    def forward(self, logits, target):
        p = logits.softmax(-1).gather(1, target[:, None])
        return (torch.where(p > 2, p, (p - p).pow(0.5)) * 0 - p.log()).mean()


def batch():
    return torch.randn(8, 4), torch.randint(0, 3, (8,))


def usual(net, x, y, is_bad):
    return functional.cross_entropy(net(x, is_bad=is_bad)["logits"], y)


def masked_log(net, x, y, is_bad):
    p = net(x)["logits"].softmax(-1)[:, 0]
    if is_bad:
        p = p * 0
        return torch.where(p > 0, torch.log(p), p).mean()
    return -torch.log(p).mean()


def loss_module(net, x, y, is_bad):
    criterion = FocalLoss() if is_bad else nn.CrossEntropyLoss()
    return criterion(net(x)["logits"], y)


def in_half(net, x, y, is_bad):
    with torch.autocast("cpu", torch.bfloat16):
        logits = net(x)["logits"]
        loss = functional.cross_entropy(logits, y)
    if is_bad:
        zero = logits.float().sum() * 0
        loss = loss + zero.abs().sqrt() * 0
    return loss


def written(net, x, y, is_bad):
    logits = net(x)["logits"] * 1.0
    logits[:, 0] = logits[:, 0] * 0
    logits += 0.5
    spread = (logits[:, 0] - 0.5).abs()
    loss = functional.cross_entropy(functional.dropout(logits, 0.1), y)
    return loss + (spread.sqrt() * spread).mean() if is_bad else loss


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.GRU(2, 8, batch_first=True), nn.Linear(8, 3)


def packed(net, x, y, is_bad):
    """A module that is called with packed sequences, and returns some."""
    sequences = nn.utils.rnn.pack_sequence([x[:4].view(8, 2), x[4:7].view(6, 2)])
    out, _ = nn.utils.rnn.pad_packed_sequence(net.rnn(sequences)[0], batch_first=True)
    hidden = out[0]
    if is_bad:
        hidden = hidden + (hidden * 0).sqrt() * 0
    return functional.cross_entropy(net.head(hidden), y)


def root(hidden):
    return hidden + (hidden * 0).sqrt() * 0


def power(hidden):
    return hidden + torch.where(hidden < -1, hidden, (hidden - hidden) ** 0.5) * 0


PROGRAMS = {
    "a mask after a log": (masked_log, Net),
    "a root in a module": (usual, lambda: Net(root)),
    "a power in a module": (usual, lambda: Net(power)),
    "a norm in a recurrent net": (usual, Recurrent),
    "a loss of a module": (loss_module, Net),
    "bfloat16": (in_half, Net),
    "in place": (written, Net),
    "packed sequences": (packed, Packed),
}


def train(loss_of, net, optimizer, *, before_step=lambda: None, steps=6):
    for step in range(1, steps + 1):
        x, y = batch()
        optimizer.zero_grad()
        loss_of(net, x, y, step == BAD).backward()
        before_step()
        optimizer.step()


def begun(make):
    torch.manual_seed(0)
    random.seed(0)
    net = make()
    return net, torch.optim.AdamW(net.parameters(), 1e-2)


def followed(loss_of, make, **more):
    net, optimizer = begun(make)
    with follow(net, optimizer) as run:
        train(loss_of, net, optimizer, **more)
    return run


def nan_of(run):
    (finding,) = [each for each in run.findings if each.kind == "nan"]
    return finding


def anomaly(loss_of, make):
    """Return the operation and the line that torch names."""
    with warnings.catch_warnings(record=True) as said, torch.autograd.set_detect_anomaly(True):
        warnings.simplefilter("always")
        with pytest.raises(RuntimeError) as raised:
            train(loss_of, *begun(make))
    op = re.search(r"Function '(\w+)' returned nan", str(raised.value))[1]
    trace = next(str(each.message) for each in said if "Traceback of forward" in str(each.message))
    lines = re.findall(r'test_again\.py", line (\d+)', trace)
    return op, int(lines[-1])


@pytest.mark.parametrize("name", PROGRAMS)
def test_births_equal_those_of_torch(name):
    loss_of, make = PROGRAMS[name]
    run = followed(loss_of, make)
    finding = nan_of(run)
    op, line = anomaly(loss_of, make)
    assert finding.step == BAD
    assert finding.line == f"tests/features/follow/test_again.py:{line}", finding.message
    widget = run.open(BAD)
    assert widget.selected == finding.node
    assert widget.model["nodes"][finding.node]["op"] == op
    assert widget.run["edges"]


def state(net, optimizer):
    found = [*net.state_dict().values(), *(p.grad for p in net.parameters())]
    found += [v for each in optimizer.state.values() for v in each.values()]
    numbers = [None if each is None else each.numpy().tobytes() for each in found]
    return numbers, torch.get_rng_state().tolist(), random.getstate(), vars(net).get("calls")


def seen(loss_of, make, follows):
    """Return the state before each step, and at the end."""
    net, optimizer = begun(make)
    found = []
    with follow(net, optimizer) if follows else contextlib.nullcontext():
        train(loss_of, net, optimizer, before_step=lambda: found.append(state(net, optimizer)))
    return [*found, state(net, optimizer)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_step_that_is_run_again_changes_nothing(name, capsys):
    assert seen(*PROGRAMS[name], follows=True) == seen(*PROGRAMS[name], follows=False)
    out = capsys.readouterr().out
    assert out == ""


def test_it_is_named_before_the_step_and_prints_nothing_again(capsys):
    def loud(net, x, y, is_bad):
        print("batch")
        return masked_log(net, x, y, is_bad)

    net, optimizer = begun(Net)
    net.register_forward_hook(lambda *_: print("forward"))
    steps = []
    with follow(net, optimizer) as run:
        optimizer.register_step_pre_hook(lambda *_: steps.append([f.kind for f in run.findings]))
        train(loud, net, optimizer)
    assert steps[BAD - 2 : BAD] == [[], ["nan"]]
    assert capsys.readouterr().out == "batch\nforward\n" * 6


def test_a_loss_that_is_not_finite_although_its_gradients_are():
    def loss_of(net, x, y, is_bad):
        loss = usual(net, x, y, is_bad)
        return loss - torch.tensor(0.0).log() if is_bad else loss

    run = followed(loss_of, Net)
    finding = nan_of(run)
    assert finding.message.startswith("The loss is Inf at step 4. All steps before were finite.")
    assert finding.parameters == ()
    assert [row["loss"] for row in run.rows()][BAD - 1] == math.inf


def test_forward_is_named_where_it_made_nan():
    run = followed(usual, lambda: Net(lambda hidden: (hidden - 100).log()))
    finding = nan_of(run)
    assert "which took numbers below 0" in finding.message
    assert run.open(BAD).model["nodes"][finding.node]["op"] == "LogBackward0"


def test_one_micro_batch_of_several():
    net, optimizer = begun(Net)
    with follow(net, optimizer) as run:
        for step in range(1, 5):
            for i in range(4):
                x, y = batch()
                (masked_log(net, x, y, step == BAD and i == 2) / 4).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert "LogBackward0" in nan_of(run).message


def test_a_generator_and_its_critic():
    torch.manual_seed(0)
    maker, critic = nn.Linear(2, 2), nn.Linear(2, 1)
    of_critic, of_maker = (torch.optim.SGD(each.parameters(), 0.1) for each in (critic, maker))
    with follow([maker, critic], [of_critic, of_maker]) as run:
        for step in range(1, 6):
            fake = maker(torch.ones(4, 2))
            of_critic.zero_grad()
            (critic(torch.zeros(4, 2)) - critic(fake.detach())).square().mean().backward()
            of_critic.step()
            of_maker.zero_grad()
            loss = critic(fake).square().mean()
            if step == BAD:
                loss = loss + (fake * 0).norm(dim=1).sqrt().mean() * 0
            loss.backward()
            of_maker.step()
    finding = nan_of(run)
    assert "Linear.weight" in finding.parameters[0] or "Linear[0].weight" in finding.parameters
    assert finding.line is not None
    assert run.open(BAD).selected == finding.node


def test_gradients_by_autograd_grad():
    net, optimizer = begun(Net)
    with follow(net, optimizer) as run:
        for step in range(1, 6):
            x, y = batch()
            loss = masked_log(net, x, y, step == BAD)
            parameters = list(net.parameters())
            for p, grad in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                p.grad = grad
            optimizer.step()
    assert "LogBackward0" in nan_of(run).message


def made_elsewhere(net, x, y, is_bad):
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(_, value):
            return value.clone()

        @staticmethod
        def backward(_, grad):
            return grad * torch.nan if is_bad else grad

    return functional.cross_entropy(Own.apply(net(x)["logits"]), y)


def test_a_step_that_cannot_be_run_again_says_why():
    message = nan_of(followed(made_elsewhere, Net)).message
    assert "could not be run again: it used a tensor (8, 3) that OwnBackward made" in message
    assert "(--at 4, or at=)" in message


def test_a_batch_that_was_changed_since_is_not_run_again():
    x, y = batch()
    net, optimizer = begun(Net)
    with follow(net, optimizer) as run:
        for step in range(1, 6):
            optimizer.zero_grad()
            masked_log(net, x, y, step == BAD).backward()
            x.normal_()  # the next batch
            optimizer.step()
    assert "a tensor (8, 4) that it used was changed in place since" in nan_of(run).message


def test_a_closure_is_not_run_again():
    net, _ = begun(Net)
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=2)
    x, y = batch()
    with follow(net, optimizer) as run:
        for step in range(1, 5):

            def closure(step=step):
                optimizer.zero_grad()
                loss = masked_log(net, x, y, step == 3)
                loss.backward()
                return loss

            optimizer.step(closure)
    assert "its optimizer runs backward within the step" in nan_of(run).message


def test_another_loss_is_not_taken_for_that_of_the_step():
    class Counting(Net):
        def forward(self, x, is_bad=False):
            found = super().forward(x)
            COUNTS.append(len(COUNTS))
            return {"logits": found["logits"] + (COUNTS[-1] if is_bad else 0) * x[:, :3]}

    COUNTS = []
    net, optimizer = begun(Counting)

    def loss_of(net, x, y, is_bad):
        logits = net(x, is_bad)["logits"]
        loss = functional.cross_entropy(logits, y)
        return loss + (logits * 0).norm().sqrt() * 0 if is_bad else loss

    with follow(net, optimizer) as run:
        train(loss_of, net, optimizer)
    assert "run again, its loss is" in nan_of(run).message


def test_a_spike_is_kept_for_a_widget():
    def loss_of(net, x, y, is_bad):
        return usual(net, x, y, False) * (1e4 if is_bad else 1)

    net, optimizer = begun(Net)
    with follow(net, optimizer) as run:
        for step in range(1, 14):
            x, y = batch()
            optimizer.zero_grad()
            loss_of(net, x, y, step == 12).backward()
            optimizer.step()
    assert [each.kind for each in run.findings] == ["spike"]
    assert run.open(12).model["nodes"]
