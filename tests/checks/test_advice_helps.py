"""The advice of a finding is applied to its program, and helps."""

from __future__ import annotations

import contextlib
import linecache
import warnings
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from gradwalk import GraphWidget, diagnose, watch

IMPORTS = """\
import copy, random
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_
from torch.utils.checkpoint import checkpoint
torch.manual_seed(0)
x, y = torch.randn(16, 4), torch.randn(16, 1)
labels = torch.randint(0, 3, (16,))
tokens = torch.tensor([[5, 3, 4, 0, 0], [6, 2, 7, 8, 9], [4, 6, 0, 0, 0]])
"""

# The kind, words of the advice, the program with {}, its broken and its mended part, and what
# holds of the mended program alone.
ADVICES: dict[str, tuple[str, str, str, str, str, str]] = {
    "the softmax over queries": (
        "mixed-rows",
        "dim=-1",
        """
        q, k, v, out = (nn.Linear(4, 4) for _ in range(4))
        data = torch.randn(8, 5, 4)
        def step():
            global weights
            weights = (q(data) @ k(data).transpose(1, 2)).softmax(dim={})
            return out(weights @ v(data)).pow(2).mean()
        """,
        "1",
        "-1",
        "torch.allclose(weights.sum(-1), torch.ones(8, 5))",
    ),
    "heads split by a view": (
        "mixed-rows",
        "view(..., 2, 3).transpose(1, 2)",
        """
        proj, data = nn.Linear(4, 6), torch.randn(8, 5, 4)
        def step():
            global heads, whole
            whole = proj(data)
            heads = whole.{}
            return heads.pow(2).mean()
        """,
        "view(8, 2, 5, 3)",
        "view(8, 5, 2, 3).transpose(1, 2)",
        "torch.equal(heads[0, 1, 0], whole[0, 0, 3:])",
    ),
    "a reshape for a transpose": (
        "mixed-rows",
        "use transpose()",
        """
        proj, conv, data = nn.Linear(4, 6), nn.Conv1d(6, 3, 1), torch.randn(8, 5, 4)
        def step():
            global swapped, whole
            whole = proj(data)
            swapped = whole.{}
            return conv(swapped).pow(2).mean()
        """,
        "view(8, 6, 5)",
        "transpose(1, 2)",
        "torch.equal(swapped[0, :, 1], whole[0, 1])",
    ),
    "padding that counts": (
        "counting",
        "ignore_index=0",
        """
        emb, head = nn.Embedding(10, 8, padding_idx=0), nn.Linear(8, 10)
        def step():
            global scores
            scores = head(emb(tokens[:, :-1])).flatten(0, 1)
            scores.retain_grad()
            return F.cross_entropy(scores, tokens[:, 1:].flatten(){})
        """,
        "",
        ", ignore_index=0",
        "not scores.grad[tokens[:, 1:].flatten() == 0].any()",
    ),
    "a mean over what a mask left out": (
        "counting",
        "mask.sum()",
        """
        model, mask = nn.Linear(4, 1), (torch.arange(16) < 5).float()[:, None]
        def step():
            global mean
            loss = (model(x) - y).pow(2)
            mean = (loss * mask){}
            return mean
        """,
        ".mean()",
        ".sum() / mask.sum()",
        "torch.allclose(mean, (model(x) - y).pow(2)[:5].mean())",
    ),
    "an average that is the model": (
        "shared-memory",
        "copy.deepcopy()",
        """
        model = nn.Linear(4, 1)
        ema_model = {}
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        def step():
            return F.mse_loss(model(x), y)
        """,
        "model",
        "copy.deepcopy(model)",
        "optimizer.step() or not torch.equal(ema_model.weight, model.weight)",
    ),
    "best weights without a copy": (
        "shared-memory",
        "copy.deepcopy(best)",
        """
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
        best = {}
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        def step():
            return F.mse_loss(model(x), y)
        """,
        "model.state_dict()",
        "copy.deepcopy(model.state_dict())",
        "optimizer.step() or not torch.equal(best['0.weight'], model[0].weight)",
    ),
    "a step that is rounded away": (
        "step",
        "Keep the parameters in float32",
        """
        model = nn.Linear(4, 1).to({0})
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
        def step():
            global before
            before = model.weight.detach().clone()
            loss = F.mse_loss(model(x.to({0})), y.to({0}))
            loss.backward()
            optimizer.step()
            return loss
        """,
        "torch.bfloat16",
        "torch.float32",
        "not torch.equal(before, model.weight)",
    ),
    "clipping after the step": (
        "clipped",
        "Clip after backward() and before step()",
        """
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        def step():
            global change
            for _ in range(2):
                optimizer.zero_grad()
                loss = F.mse_loss(model(x), 100 * y)
                loss.backward()
                before = torch.cat([p.detach().flatten() for p in model.parameters()])
                {}
                change = torch.cat([p.detach().flatten() for p in model.parameters()]) - before
            return loss
        """,
        "optimizer.step(); clip_grad_norm_(model.parameters(), 0.5)",
        "clip_grad_norm_(model.parameters(), 0.5); optimizer.step()",
        "change.norm() < 0.51",
    ),
    "clipping that sees no gradient": (
        "clipped",
        "as a list",
        """
        model = nn.Linear(4, 1)
        parameters = {}
        optimizer = torch.optim.SGD(parameters, lr=1.0)
        def step():
            global norm
            loss = F.mse_loss(model(x), 100 * y)
            loss.backward()
            norm = clip_grad_norm_(parameters, 0.5)
            optimizer.step()
            return loss
        """,
        "model.parameters()",
        "list(model.parameters())",
        "norm > 1",
    ),
    "clipping of each pass": (
        "clipped",
        "Clip once, before step()",
        """
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        def step():
            global norms
            norms = []
            for part in (0, 1):
                loss = F.mse_loss(model(x[part::2]), 100 * y[part::2])
                loss.backward()
                if {}:
                    norms.append(clip_grad_norm_(model.parameters(), 0.5))
            optimizer.step()
            return loss
        """,
        "True",
        "part == 1",
        "len(norms) == 1",
    ),
    "a scaled loss without its scaler": (
        "scaled",
        "scaler.step(optimizer)",
        """
        model, scaler = nn.Linear(4, 1), torch.amp.GradScaler("cpu")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        def step():
            loss = F.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            {}
            return loss
        """,
        "optimizer.step()",
        "scaler.step(optimizer)",
        "model.weight.abs().max() < 2",
    ),
    "clipping of scaled gradients": (
        "scaled",
        "scaler.unscale_(optimizer)",
        """
        model, scaler = nn.Linear(4, 1), torch.amp.GradScaler("cpu")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        def step():
            global norm
            loss = F.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            {}norm = clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            return loss
        """,
        "",
        "scaler.unscale_(optimizer); ",
        "norm < 100",
    ),
    "a hook without a result": (
        "unused-result",
        "return grad",
        """
        model = nn.Linear(4, 1)
        def smaller(grad):
            grad = grad * 0
            {}
        model.weight.register_hook(smaller)
        def step():
            return F.mse_loss(model(x), y)
        """,
        "",
        "return grad",
        "not model.weight.grad.any()",
    ),
    "a cast that drops a part": (
        "unused-result",
        "torch.view_as_real()",
        """
        model = nn.Linear(4, 8)
        def step():
            global spectrum
            spectrum = torch.fft.rfft(model(x))
            spectrum.retain_grad()
            return {}.pow(3).mean()
        """,
        "spectrum.float()",
        "torch.view_as_real(spectrum)",
        "spectrum.grad.imag.any()",
    ),
    "a plain tensor that should learn": (
        "unused-result",
        "nn.Parameter",
        """
        class Scaled(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc, self.scale = nn.Linear(4, 1), {}
            def forward(self, x):
                return self.fc(x * self.scale)
        model = Scaled()
        def step():
            return F.mse_loss(model(x), y)
        """,
        "torch.ones(4)",
        "nn.Parameter(torch.ones(4))",
        "isinstance(model.scale, nn.Parameter) and model.scale.grad.any()",
    ),
    "constant weights": (
        "alike",
        "Initialise them at random",
        """
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        for layer in (model[0], model[2]):
            {}(layer.weight)
            nn.init.zeros_(layer.bias)
        def step():
            return F.mse_loss(model(x), y)
        """,
        "nn.init.ones_",
        "nn.init.xavier_uniform_",
        "model[0].weight.grad[0].ne(model[0].weight.grad[1]).any()",
    ),
    "attention over one token": (
        "alike",
        "a sequence of several tokens",
        """
        embed = nn.Linear(4, 8)
        attention = nn.MultiheadAttention(8, 2, batch_first=True)
        data = torch.randn(16, {}, 4)
        def step():
            h = embed(data)
            return attention(h, h, h)[0].pow(2).mean()
        """,
        "1",
        "3",
        "attention.in_proj_weight.grad[:8].any()",
    ),
    "numbers of Python in a checkpoint": (
        "recomputed",
        "outside of it",
        """
        inner, head = nn.Linear(4, 8), nn.Linear(8, 1)
        seen = []
        def block(h, number=None):
            number = random.random() if number is None else number
            seen.append(number)
            return (inner(h) * number).tanh()
        def step():
            return F.mse_loss(head(checkpoint(block, x{}, use_reentrant=False)), y)
        """,
        "",
        ", random.random()",
        "seen[0] == seen[1]",
    ),
    "random numbers drawn anew": (
        "recomputed",
        "Leave out preserve_rng_state=False",
        """
        body, head = nn.Sequential(nn.Linear(4, 8), nn.Dropout(), nn.Tanh()), nn.Linear(8, 1)
        seen = []
        body[1].register_forward_hook(lambda m, i, out: seen.append(out.detach().clone()))
        def step():
            return F.mse_loss(head(checkpoint(body, x, use_reentrant=False{})), y)
        """,
        ", preserve_rng_state=False",
        "",
        "torch.equal(*seen)",
    ),
    "the deviation of one number": (
        "nan",
        "correction=0",
        """
        model, one = nn.Linear(4, 3), x[:1]
        def step():
            h = model(one)
            return ((h - h.mean(0)) / (h.std(0{}) + 1e-6)).pow(2).sum() + h.sum()
        """,
        "",
        ", correction=0",
        "model.weight.grad.isfinite().all()",
    ),
    "an underflow of float16": (
        "zero",
        "bfloat16",
        """
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).to({0})
        def step():
            return F.mse_loss(model(x.to({0})), y.to({0})) * 1e-7
        """,
        "torch.float16",
        "torch.bfloat16",
        "model[0].weight.grad.any()",
    ),
    "weights that are zero": (
        "zero",
        "Initialise it at random",
        """
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        {}
        def step():
            return F.mse_loss(model(x), y)
        """,
        "[nn.init.zeros_(p) for p in model.parameters()]",
        "nn.init.xavier_uniform_(model[2].weight)",
        "model[0].weight.grad.any()",
    ),
}


def findings_of(source: str, file: Path) -> tuple[list[Any], dict[str, Any]]:
    """Run a program as the README says, and diagnose it; with its variables."""
    file.write_text(IMPORTS + dedent(source), encoding="utf-8")
    linecache.checkcache(str(file))
    space: dict[str, Any] = {"watch": watch, "diagnose": diagnose, "GraphWidget": GraphWidget}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), space)
        with watch():
            exec("loss = step()", space)
        exec("widget = GraphWidget(loss)", space)
        with contextlib.suppress(RuntimeError):  # the program ran its own backward
            space["widget"].backward()
        exec("found = diagnose(widget, optimizer=globals().get('optimizer'))", space)
        space["widget"].close()
    return space["found"], space


@pytest.mark.parametrize("name", ADVICES)
def test_the_advice_helps(name: str, tmp_path: Path) -> None:
    kind, advice, source, broken, mended, holds = ADVICES[name]
    found, space = findings_of(source.format(broken), tmp_path / "broken.py")
    messages = [each.message for each in found if each.kind == kind]
    assert any(advice in each for each in messages), found
    assert not eval(holds, space)

    found, space = findings_of(source.format(mended), tmp_path / "mended.py")
    messages = [each.message for each in found if each.kind == kind]
    assert not any(advice in each for each in messages), messages
    assert eval(holds, space)
