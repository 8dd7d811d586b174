"""Nothing alarms in healthy programs: torch's own modules, usual nets, usual ways to train."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import more_architectures  # noqa: F401  its nets stand in ARCHITECTURES, too
import pytest
import torch
from architectures import ARCHITECTURES
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing._internal.common_modules import module_db

from gradwalk import GraphWidget, watch
from gradwalk.checks.finding import Finding


def alarms(step: Callable[[], Tensor], *, watched: bool = True, **asked: Any) -> list[Finding]:
    """What is more than a note of what is found after one backward."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with watch() if watched else contextlib.nullcontext():
            loss = step()
        widget = GraphWidget(loss, names=asked.get("names"))
        widget.backward()
        found = widget.diagnose(**asked)
    widget.close()
    return [finding for finding in found if finding.severity != "info"]


def squared(value: Any) -> Tensor:
    """A loss of whatever a module returns: how far what needs grad is from numbers of chance."""
    if isinstance(value, Tensor):
        if not value.requires_grad:
            return torch.zeros(())
        chance = torch.Generator().manual_seed(value.numel())
        wanted = torch.randn(value.shape, generator=chance)
        return (value.float() - wanted).square().mean()
    if isinstance(value, (list, tuple)):
        return sum(map(squared, value), torch.zeros(()))
    if hasattr(value, "values"):
        return squared(list(value.values()))
    return torch.zeros(())


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_usual_net(name: str, watched: bool) -> None:
    net, inputs = ARCHITECTURES[name]()
    assert not alarms(lambda: squared(net(*inputs)), watched=watched, names=net)


def of_module_db(info: Any) -> Iterator[tuple[nn.Module, Callable[[], Tensor]]]:
    """The modules of one entry, with a loss of their first output."""
    torch.manual_seed(1)
    samples = info.module_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=False, training=True
    )
    for sample in samples:
        made, given = sample.constructor_input, sample.forward_input
        net = info.module_cls(*made.args, **made.kwargs)
        if any(True for _ in net.parameters()):
            yield net, lambda net=net, given=given: squared(net(*given.args, **given.kwargs))
            return


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("info", module_db, ids=lambda info: info.formatted_name)
def test_a_module_of_torchs_own(info: Any) -> None:
    for net, step in of_module_db(info):
        # Some samples have two units, which may both be off by chance.
        assert [finding for finding in alarms(step, names=net) if finding.kind != "dead"] == []


def batch() -> tuple[Tensor, Tensor]:
    return torch.randn(16, 4), torch.randn(16, 1)


def mlp(*sizes: int) -> nn.Sequential:
    layers = [m for a, b in pairwise(sizes) for m in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


TRAININGS: dict[str, Callable[[], tuple[Callable[[], Tensor], dict[str, Any]]]] = {}


def training(make: Any) -> Any:
    """Enter a way to train: it gives a step, and what is asked for beside it."""
    TRAININGS[make.__name__] = make
    return make


@training
def gan_discriminator() -> Any:
    g, d = mlp(2, 8, 4), mlp(4, 8, 1)
    x, _ = batch()

    def step() -> Tensor:
        real, fake = d(x), d(g(torch.randn(16, 2)).detach())
        bce = F.binary_cross_entropy_with_logits
        return bce(real, torch.ones_like(real)) + bce(fake, torch.zeros_like(fake))

    return step, {"names": {"d": d, "g": g}, "optimizer": torch.optim.Adam(d.parameters())}


@training
def gan_generator() -> Any:
    g, d = mlp(2, 8, 4), mlp(4, 8, 1)

    def step() -> Tensor:
        fake = d(g(torch.randn(16, 2)))
        return F.binary_cross_entropy_with_logits(fake, torch.ones_like(fake))

    return step, {"names": {"d": d, "g": g}, "optimizer": torch.optim.Adam(g.parameters())}


@training
def teacher_and_student() -> Any:
    teacher, student = mlp(4, 8, 3), mlp(4, 8, 3)
    x, _ = batch()

    def step() -> Tensor:
        with torch.no_grad():
            wanted = teacher(x).softmax(1)
        return F.kl_div(student(x).log_softmax(1), wanted, reduction="batchmean")

    return step, {"optimizer": torch.optim.SGD(student.parameters(), 0.1)}


@training
def target_network() -> Any:
    q = mlp(4, 8, 2)
    target = copy.deepcopy(q)
    x, y = batch()

    def step() -> Tensor:
        with torch.no_grad():
            best = target(x).max(1).values + y.squeeze(1)
        return F.smooth_l1_loss(q(x).gather(1, torch.zeros(16, 1, dtype=torch.long))[:, 0], best)

    return step, {"names": q}


@training
def actor_and_critic() -> Any:
    net = nn.ModuleDict({"actor": mlp(4, 8, 2), "critic": mlp(4, 8, 1)})
    x, y = batch()

    def step() -> Tensor:
        value = net["critic"](x)
        advantage = (y - value).detach()
        log_p = net["actor"](x).log_softmax(1)[:, :1]
        return -(log_p * advantage).mean() + F.mse_loss(value, y)

    return step, {"names": net}


class Quantised(nn.Module):
    """The straight-through estimator of a VQ-VAE."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder, self.codes = mlp(4, 8, 3), mlp(3, 8, 4), nn.Embedding(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        z = self.encoder(x)
        q = self.codes(torch.cdist(z, self.codes.weight).argmin(1))
        commitment = F.mse_loss(z, q.detach()) + F.mse_loss(q, z.detach())
        return F.mse_loss(self.decoder(z + (q - z).detach()), x) + commitment


@training
def straight_through() -> Any:
    net = Quantised()
    x, _ = batch()
    return lambda: net(x), {"names": net}


@training
def stop_gradient_of_siamese_views() -> Any:
    net = nn.ModuleDict({"f": mlp(4, 8, 8), "h": mlp(8, 4, 8)})
    x, _ = batch()

    def step() -> Tensor:
        a, b = net["f"](x), net["f"](x + 0.1)
        cosine = F.cosine_similarity
        return -(cosine(net["h"](a), b.detach()).mean() + cosine(net["h"](b), a.detach()).mean())

    return step, {"names": net}


@training
def frozen_backbone() -> Any:
    net = nn.Sequential(mlp(4, 8, 8), nn.Linear(8, 1))
    net[0].requires_grad_(False).eval()
    x, y = batch()
    optimizer = torch.optim.SGD(net[1].parameters(), 0.1)
    return lambda: F.mse_loss(net(x), y), {"names": net, "optimizer": optimizer}


class LowRank(nn.Module):
    """A linear layer with a low-rank update that starts at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(4, 4).requires_grad_(False)
        self.down, self.up = nn.Linear(4, 2, bias=False), nn.Linear(2, 4, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.up(self.down(x))


@training
def low_rank_update() -> Any:
    net = nn.Sequential(LowRank(), nn.ReLU(), LowRank())
    x, _ = batch()
    return lambda: F.mse_loss(net(x), x), {"names": net}


class ZeroGamma(nn.Module):
    """Residual blocks whose last normalisation starts at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(4, 8)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.BatchNorm1d(8))
            for _ in range(4)
        )
        for block in self.blocks:
            nn.init.zeros_(block[-1].weight)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return x


@training
def residual_blocks_that_start_at_zero() -> Any:
    net = ZeroGamma()
    x, y = batch()
    return lambda: F.mse_loss(net(x).mean(1, keepdim=True), y), {"names": net}


@training
def layer_scale() -> Any:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.gamma = mlp(8, 16, 8), nn.Parameter(1e-6 * torch.ones(8))
            self.norm = nn.LayerNorm(8)

        def forward(self, x: Tensor) -> Tensor:
            return x + self.gamma * self.net(self.norm(x))

    net = nn.Sequential(nn.Linear(4, 8), *(Block() for _ in range(6)), nn.Linear(8, 1))
    x, y = batch()
    return lambda: F.mse_loss(net(x), y), {"names": net}


@pytest.mark.parametrize("reentrant", [True, False])
def test_activation_checkpointing(reentrant: bool) -> None:
    net, (x, y) = nn.Sequential(mlp(4, 8, 8), nn.Linear(8, 1)), batch()
    x.requires_grad_()

    def step() -> Tensor:
        inner = torch.utils.checkpoint.checkpoint(net[0], x, use_reentrant=reentrant)
        return F.mse_loss(net[1](inner), y)

    assert not alarms(step, names=net)
    assert all(parameter.grad is not None for parameter in net.parameters()), "torch gives them"


@training
def truncated_backpropagation() -> Any:
    net = nn.ModuleDict({"cell": nn.GRUCell(4, 8), "head": nn.Linear(8, 1)})
    x, y = batch()

    def step() -> Tensor:
        h, total = torch.zeros(16, 8), torch.zeros(())
        for t in range(12):
            h = net["cell"](x, h.detach() if t % 4 == 0 else h)
            total = total + F.mse_loss(net["head"](h), y)
        return total / 12

    return step, {"names": net}


@training
def accumulated_micro_batches() -> Any:
    net = mlp(4, 8, 1)
    x, y = batch()
    for _ in range(3):
        (F.mse_loss(net(x), y) / 4).backward()
    return lambda: F.mse_loss(net(x), y) / 4, {
        "names": net,
        "optimizer": torch.optim.SGD(net.parameters(), 0.1),
    }


@training
def exponential_moving_average() -> Any:
    net = mlp(4, 8, 1)
    average = copy.deepcopy(net)
    x, y = batch()

    def step() -> Tensor:
        with torch.no_grad():
            for slow, fast in zip(average.parameters(), net.parameters(), strict=True):
                slow.lerp_(fast, 0.1)
        return F.mse_loss(net(x), y) + 0.1 * F.mse_loss(net(x), average(x).detach())

    return step, {"names": net}


@training
def auxiliary_loss_of_small_weight() -> Any:
    net = nn.ModuleDict({"body": mlp(4, 8, 8), "a": nn.Linear(8, 1), "b": nn.Linear(8, 3)})
    x, y = batch()
    labels = torch.randint(0, 3, (16,))

    def step() -> Tensor:
        h = net["body"](x)
        return F.mse_loss(net["a"](h), y) + 0.01 * F.cross_entropy(net["b"](h), labels)

    return step, {"names": net}


@training
def pairwise_distances() -> Any:
    net = mlp(4, 8, 2)
    x, _ = batch()

    def step() -> Tensor:
        z = net(x)
        return ((z[:, None] - z[None]) ** 2).sum(-1).mean()

    return step, {"names": net}


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("name", TRAININGS)
def test_a_usual_way_to_train(name: str, watched: bool) -> None:
    torch.manual_seed(0)
    step, asked = TRAININGS[name]()
    assert not alarms(step, watched=watched, **asked)
