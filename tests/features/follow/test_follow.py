"""`follow`: what it finds in a loop, and that it stays silent in a healthy one."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.optim import optimizer as torch_optimizer
from torch.utils.checkpoint import checkpoint

import gradwalk
from gradwalk import follow
from gradwalk.torch_api.modes import top_mode


class Net(nn.Module):
    def __init__(self, detach=False):
        super().__init__()
        self.embed, self.body, self.head = nn.Embedding(20, 8), nn.Linear(8, 8), nn.Linear(8, 20)
        self.detach = detach

    def forward(self, x):
        hidden = self.body(self.embed(x)).tanh()
        if self.detach:
            hidden = hidden.detach()
        return self.head(hidden)


def batches(n=4):
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(0, 20, (8,), generator=generator) for _ in range(n)]


def train(net, optimizer, n=4, before_step=lambda: None):
    for x in batches(n):
        optimizer.zero_grad()
        functional.cross_entropy(net(x), x).backward()
        before_step()
        optimizer.step()


def made(**more):
    torch.manual_seed(0)
    net = Net(**more)
    return net, torch.optim.SGD(net.parameters(), 0.1)


def kinds(run):
    return [finding.kind for finding in run.findings]


def test_a_healthy_loop_has_no_finding():
    net, optimizer = made()
    with follow(net, optimizer) as run:
        train(net, optimizer, 25)
    assert run.findings == []
    assert run.steps == 25
    assert "5 of 5 trainable parameters have a gradient" in str(run)


def test_a_cut_is_named_with_its_line_at_the_first_step():
    net, optimizer = made(detach=True)
    with follow(net, optimizer) as run:
        train(net, optimizer, 1)
    (finding,) = run.findings
    assert (finding.kind, finding.severity, finding.step) == ("no-gradient", "warning", 1)
    assert finding.parameters == ("embed.weight", "body.weight", "body.bias")
    assert "test_follow.py:" in finding.line
    assert "detach()" in finding.message


def test_a_reentrant_checkpoint_without_input_that_requires_grad_is_named():
    class Blocks(Net):
        def forward(self, x):
            embedded = self.embed(x)
            return self.head(checkpoint(self.body, embedded, use_reentrant=True))

    torch.manual_seed(0)
    net = Blocks()
    net.embed.requires_grad_(False)
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], 0.1)
    with pytest.warns(UserWarning, match="None of the inputs"), follow(net, optimizer) as run:
        train(net, optimizer, 2)
    assert kinds(run) == ["no-gradient"]
    assert run.findings[0].parameters == ("body.weight", "body.bias")
    assert "use_reentrant" in run.findings[0].message


def test_a_healthy_reentrant_checkpoint_is_not_accused():
    class Blocks(Net):
        def forward(self, x):
            return self.head(checkpoint(self.body, self.embed(x), use_reentrant=True))

    torch.manual_seed(0)
    net = Blocks()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with follow(net, optimizer) as run:
        train(net, optimizer)
    assert run.findings == []


def test_an_unused_parameter_is_reported_when_no_step_has_reached_it():
    net, optimizer = made()
    net.spare = nn.Linear(2, 2)
    optimizer.add_param_group({"params": net.spare.parameters()})
    with follow(net, optimizer) as run:
        train(net, optimizer, 3)
        assert run.findings == []  # a later step may use it
    (finding,) = run.findings
    assert (finding.kind, finding.parameters) == ("unused", ("spare.weight", "spare.bias"))
    assert "in 3 steps" in finding.message
    assert finding.line is not None


def test_a_parameter_that_a_later_step_reaches_is_not_reported():
    net, optimizer = made()
    with follow(net, optimizer) as run:
        for i, x in enumerate(batches(4)):
            hidden = net.embed(x)
            hidden = net.body(hidden) if i else hidden
            optimizer.zero_grad()
            functional.cross_entropy(net.head(hidden), x).backward()
            optimizer.step()
    assert run.findings == []


def test_zeros_of_the_first_step_alone_are_not_reported():
    """As of LoRA, whose second factor starts at zero."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 4))
    nn.init.zeros_(net[1].weight)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with follow(net, optimizer) as run:
        for _ in range(4):
            optimizer.zero_grad()
            (net(torch.ones(3, 4)) - 1).square().mean().backward()
            optimizer.step()
    assert run.findings == []


def test_zeros_of_every_step_are_reported():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 4))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with follow(net, optimizer) as run:
        for _ in range(4):
            optimizer.zero_grad()
            (net[1](net[0](torch.ones(3, 4)) * 0) - 1).square().mean().backward()
            optimizer.step()
    (finding,) = run.findings
    assert finding.kind == "zero"
    assert finding.parameters == ("0.weight", "0.bias", "1.weight")


def test_parameters_that_no_optimizer_holds():
    net, _ = made()
    optimizer = torch.optim.SGD(net.head.parameters(), 0.1)
    with follow(net, optimizer) as run:
        train(net, optimizer, 2)
    (finding,) = run.findings
    assert finding.kind == "optimizer"
    assert finding.parameters == ("embed.weight", "body.weight", "body.bias")


def test_a_layer_that_was_replaced_after_the_optimizer_was_made():
    net, optimizer = made()
    net.head = nn.Linear(8, 20)
    with follow(net, optimizer) as run:
        train(net, optimizer, 2)
    assert kinds(run) == ["optimizer", "optimizer"]
    assert run.findings[0].parameters == ("head.weight", "head.bias")
    assert "replaced after the optimizer was made" in run.findings[1].message


def test_frozen_parameters_in_the_optimizer_are_a_note():
    net, optimizer = made()
    net.embed.requires_grad_(False)
    with follow(net, optimizer) as run:
        train(net, optimizer, 2)
    assert [(each.kind, each.severity) for each in run.findings] == [("frozen", "info")]


def test_gradients_that_were_cleared_before_the_step():
    net, optimizer = made()
    with follow(net, optimizer) as run:
        train(net, optimizer, 2, before_step=optimizer.zero_grad)
    assert run.findings[0].kind == "cleared"
    assert "between backward() and step()" in run.findings[0].message


def test_an_accumulation_that_is_cleared_in_every_micro_batch():
    net, optimizer = made()
    with follow(net, optimizer) as run:
        for i, x in enumerate(batches(8)):
            optimizer.zero_grad()
            functional.cross_entropy(net(x), x).backward()
            if i % 4 == 3:
                optimizer.step()
    (finding,) = run.findings
    assert finding.kind == "cleared"
    assert "4 backward passes ran before step 1, and the gradients of 3" in finding.message


def test_a_micro_batch_is_not_a_step():
    net, optimizer = made()
    with follow(net, optimizer) as run:
        for i, x in enumerate(batches(8)):
            (functional.cross_entropy(net(x), x) / 4).backward()
            if i % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()
    assert run.findings == []
    assert run.steps == 2
    assert run.as_json()["looks"][0]["passes"] == 4


def test_two_optimizers_that_take_turns():
    torch.manual_seed(0)
    maker, judge = nn.Linear(2, 2), nn.Linear(2, 1)
    optimizers = [torch.optim.SGD(each.parameters(), 0.1) for each in (judge, maker)]
    with follow([maker, judge], optimizers) as run:
        for _ in range(3):
            fake = maker(torch.ones(4, 2))
            optimizers[0].zero_grad()
            (judge(torch.zeros(4, 2)) - judge(fake.detach())).mean().backward()
            optimizers[0].step()
            optimizers[1].zero_grad()
            judge(fake).square().mean().backward()
            optimizers[1].step()
    assert [each for each in run.findings if each.severity != "info"] == []
    assert len(run.as_json()["looks"]) == 2
    assert {row["optimizer"] for row in run.rows()} == {0, 1}


def test_a_scaled_loss_that_was_never_unscaled():
    net, optimizer = made()
    scaler = torch.amp.GradScaler("cpu")
    with follow(net, optimizer) as run:
        for x in batches(2):
            optimizer.zero_grad()
            scaler.scale(functional.cross_entropy(net(x), x)).backward()
            optimizer.step()
    assert "scaled" in kinds(run)


@pytest.mark.parametrize("fused", [False, True])
def test_a_scaled_loss_that_is_unscaled(fused):
    net, _ = made()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3, fused=fused)
    scaler = torch.amp.GradScaler("cpu")
    with follow(net, optimizer) as run:
        for x in batches(4):
            optimizer.zero_grad()
            scaler.scale(functional.cross_entropy(net(x), x)).backward()
            scaler.step(optimizer)
            scaler.update()
    assert run.findings == []


def test_nan_is_named_before_the_step():
    net, optimizer = made()
    seen = []
    with follow(net, optimizer) as run:
        for i, x in enumerate(batches(6)):
            optimizer.zero_grad()
            loss = functional.cross_entropy(net(x), x)
            (loss * float("nan") if i == 3 else loss).backward()
            if i == 3:
                optimizer.register_step_pre_hook(
                    lambda *_: seen.append((kinds(run), bool(net.head.weight.isfinite().all())))
                )
            optimizer.step()
    assert seen[0] == (["nan"], True)
    assert run.findings[0].step == 4
    assert kinds(run).count("nan") == 1


def test_nan_of_the_looked_step_names_its_operation():
    net, optimizer = made()
    with follow(net, optimizer) as run:
        for x in batches(1):
            optimizer.zero_grad()
            probability = (net(x).softmax(-1)[:, 0] > 2).float() * net.head.bias[0]
            probability.log().mean().backward()
            optimizer.step()
    assert run.findings[0].kind == "nan"
    assert "log" in run.findings[0].message.lower()
    assert run.findings[0].line is not None


def test_updates_that_round_away():
    torch.manual_seed(0)
    net = nn.Linear(4, 4).to(torch.bfloat16)
    optimizer = torch.optim.SGD(net.parameters(), 1e-6)
    with follow(net, optimizer) as run:
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.ones(2, 4, dtype=torch.bfloat16)).square().mean().backward()
            optimizer.step()
    (finding,) = run.findings
    assert finding.kind == "unchanged"
    assert "bfloat16" in finding.message


def test_a_warm_up_from_zero_is_not_reported():
    net, optimizer = made()
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step // 3)
    with follow(net, optimizer) as run:
        for x in batches(5):
            optimizer.zero_grad()
            functional.cross_entropy(net(x), x).backward()
            optimizer.step()
            schedule.step()
    assert run.findings == []


def test_a_closure_runs_backward_within_the_step():
    net, _ = made(detach=True)
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=2)
    x = batches(1)[0]

    def closure():
        optimizer.zero_grad()
        loss = functional.cross_entropy(net(x), x)
        loss.backward()
        return loss

    with follow(net, optimizer) as run:
        for _ in range(2):
            optimizer.step(closure)
    assert kinds(run) == ["no-gradient"]


def test_another_step_can_be_looked_at_and_opened():
    net, optimizer = made()
    with follow(net, optimizer, at=3) as run:
        train(net, optimizer)
    assert run.as_json()["looks"][0]["step"] == 3
    widget = run.open(3)
    assert widget.run["edges"]
    with pytest.raises(ValueError, match=r"was given step 1, whose graph was not kept\. Kept: 3"):
        run.open(1)


def test_the_rows_have_the_norms_of_torch():
    net, optimizer = made()
    norms = []
    with follow(net, optimizer) as run:
        train(
            net,
            optimizer,
            3,
            before_step=lambda: norms.append(
                {name: float(p.grad.norm()) for name, p in net.named_parameters()}
            ),
        )
    rows = run.rows()
    assert [row["step"] for row in rows] == [1, 2, 3]
    for row, norm in zip(rows, norms, strict=True):
        assert {k: row[f"grad_norm/{k}"] for k in norm} == pytest.approx(norm, rel=1e-6)
    assert rows[1]["update/head.weight"] > 0
    json.dumps(run.as_json())


def test_a_loss_without_a_graph_is_explained():
    net, optimizer = made()

    def train_without_grad():
        with torch.no_grad():
            out = net(batches(1)[0])
        out.sum().backward()

    with pytest.raises(RuntimeError, match="does not require grad"), follow(net, optimizer) as run:
        train_without_grad()
    assert sum(len(finding.parameters) for finding in run.findings) == 5
    assert all("no_grad" in finding.message for finding in run.findings)


def test_a_failure_of_the_look_is_said_once_and_the_training_goes_on(monkeypatch):
    def fails(*_):
        raise KeyError("boom")

    monkeypatch.setattr("gradwalk.features.follow.look.read_loss", fails)
    net, optimizer = made()
    with follow(net, optimizer) as run:
        train(net, optimizer, 3)
    assert run.findings == []
    assert [each for each in run.as_json()["notes"] if "boom" in each]
    assert len(run.as_json()["notes"]) == 1
    assert optimizer.state == {} or run.steps >= 1
    assert top_mode() is None


def test_nothing_stays_behind():
    before = [len(vars(torch_optimizer)[k]) for k in vars(torch_optimizer) if "global" in k]
    backward = torch.Tensor.backward
    net, optimizer = made()
    with follow(net, optimizer):
        train(net, optimizer, 2)
        copy.deepcopy(net)
        pickle.dumps((net, optimizer.state_dict()))
    assert [len(vars(torch_optimizer)[k]) for k in vars(torch_optimizer) if "global" in k] == before
    assert torch.Tensor.backward is backward
    assert not optimizer._optimizer_step_pre_hooks


def test_wrong_arguments():
    net, optimizer = made()
    with pytest.raises(TypeError, match=r"given model=int\. Pass a torch.nn.Module"):
        follow(3, optimizer)
    with pytest.raises(TypeError, match="given optimizer=Net"):
        follow(net, net)
    with pytest.raises(ValueError, match=r"at=0\. Give the number of a step"):
        follow(net, optimizer, at=0)
    with pytest.raises(TypeError, match="makes nothing"):
        gradwalk.results.FollowedRun()
