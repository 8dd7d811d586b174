"""Healthy training loops get no warning and no error at any point of an iteration."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from gradwalk import GraphWidget, diagnose, watch

LOOPS: dict[str, Callable[[Look], None]] = {}


class Look:
    """Ask for findings at every point of a loop, with the variables of its function as names."""

    def __init__(self, watched: bool) -> None:
        self.watched = watched
        self.widget: GraphWidget | None = None
        self.optimizers: tuple[torch.optim.Optimizer, ...] = ()

    @contextmanager
    def forward(self) -> Iterator[None]:
        with watch() if self.watched else contextlib.nullcontext():
            yield

    def at(self, loss: Tensor, *optimizers: torch.optim.Optimizer) -> Tensor:
        """Look at a loss before its backward; return it."""
        self.close()
        self.optimizers = optimizers
        quiet(diagnose(loss, optimizer=optimizers, stacklevel=2))
        self.widget = GraphWidget(loss, stacklevel=2)
        return loss

    def again(self, level: int = 2) -> None:
        """Look at it again, after its backward or a step, with the variables of a frame above."""
        assert self.widget is not None
        for optimizers in ((), self.optimizers):
            quiet(self.widget.diagnose(optimizer=optimizers, stacklevel=level))

    def close(self) -> None:
        if self.widget is not None:
            self.widget.close()


def quiet(found: list[Any]) -> None:
    alarms = [each for each in found if each.severity != "info" or each.kind == "failed"]
    assert not alarms, "\n".join(f"[{each.kind}] {each.message}" for each in alarms)


def loop(run: Callable[[Look], None]) -> Callable[[Look], None]:
    LOOPS[run.__name__] = run
    return run


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("name", LOOPS)
def test_a_healthy_loop(name: str, watched: bool) -> None:
    torch.manual_seed(0)
    look = Look(watched)
    try:
        LOOPS[name](look)
    finally:
        look.close()


def step(look: Look, loss: Tensor, *optimizers: torch.optim.Optimizer) -> None:
    """Run backward and a step of some optimizers, and look after each."""
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    look.again(3)
    for optimizer in optimizers:
        optimizer.step()
    look.again(3)


def mlp(*sizes: int) -> nn.Sequential:
    layers = [each for a, b in pairwise(sizes) for each in (nn.Linear(a, b), nn.Tanh())]
    return nn.Sequential(*layers[:-1])


@loop
def rnn_with_carried_state(look: Look) -> None:
    cell, head = nn.LSTMCell(3, 5), nn.Linear(5, 1)
    optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()])
    h, c = torch.zeros(4, 5), torch.zeros(4, 5)
    for _ in range(3):
        with look.forward():
            total = torch.zeros(())
            for _ in range(3):
                h, c = cell(torch.randn(4, 3), (h, c))
                total = total + head(h).square().mean()
        look.at(total, optimizer)
        step(look, total, optimizer)
        h, c = h.detach(), c.detach()


@loop
def gan_with_two_optimizers(look: Look) -> None:
    g, d = mlp(2, 8, 3), mlp(3, 8, 1)
    opt_g, opt_d = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
    ones, zeros = torch.ones(6, 1), torch.zeros(6, 1)
    score = F.binary_cross_entropy_with_logits
    for _ in range(2):
        fake = g(torch.randn(6, 2))
        with look.forward():
            loss = score(d(torch.randn(6, 3)), ones) + score(d(fake.detach()), zeros)
        look.at(loss, opt_d)
        step(look, loss, opt_d)
        with look.forward():
            loss = score(d(g(torch.randn(6, 2))), ones)
        look.at(loss, opt_g)
        step(look, loss, opt_g)


@loop
def vae_with_warmed_up_kl(look: Look) -> None:
    enc, dec = mlp(6, 8, 4), mlp(2, 8, 6)
    optimizer = torch.optim.Adam([*enc.parameters(), *dec.parameters()])
    x = torch.rand(8, 6)
    for epoch in range(3):
        with look.forward():
            mean, log_var = enc(x).chunk(2, 1)
            z = mean + torch.randn_like(mean) * (log_var / 2).exp()
            kl = -0.5 * (1 + log_var - mean.square() - log_var.exp()).sum(1).mean()
            loss = F.mse_loss(dec(z), x) + min(1.0, epoch / 2 + 0.1) * kl
        look.at(loss, optimizer)
        step(look, loss, optimizer)


@loop
def vq_vae_with_both_losses(look: Look) -> None:
    enc, dec, codes = nn.Linear(6, 3), nn.Linear(3, 6), nn.Embedding(5, 3)
    optimizer = torch.optim.Adam([*enc.parameters(), *dec.parameters(), *codes.parameters()])
    x = torch.rand(8, 6)
    for _ in range(2):
        with look.forward():
            z = enc(x)
            q = codes(torch.cdist(z, codes.weight).argmin(1))
            straight = z + (q - z).detach()
            loss = F.mse_loss(dec(straight), x) + F.mse_loss(q, z.detach())
            loss = loss + 0.25 * F.mse_loss(z, q.detach())
        look.at(loss, optimizer)
        step(look, loss, optimizer)


@loop
def ddpm(look: Look) -> None:
    net = mlp(5, 16, 4)
    optimizer = torch.optim.AdamW(net.parameters())
    ema = copy.deepcopy(net).requires_grad_(False)
    kept = torch.linspace(0.99, 0.01, 10)
    for _ in range(2):
        x, noise, t = torch.randn(8, 4), torch.randn(8, 4), torch.randint(10, (8,))
        with look.forward():
            a = kept[t].unsqueeze(1)
            noisy = a.sqrt() * x + (1 - a).sqrt() * noise
            loss = F.mse_loss(net(torch.cat([noisy, t.unsqueeze(1) / 10], 1)), noise)
        look.at(loss, optimizer)
        step(look, loss, optimizer)
        with torch.no_grad():
            for old, new in zip(ema.parameters(), net.parameters(), strict=True):
                old.lerp_(new, 0.1)


@loop
def policy_gradient_with_baseline(look: Look) -> None:
    policy = mlp(3, 8, 2)
    optimizer = torch.optim.Adam(policy.parameters())
    baseline = 0.0
    for _ in range(3):
        with look.forward():
            chosen, rewards = [], []
            for _ in range(4):
                actions = torch.distributions.Categorical(logits=policy(torch.randn(3)))
                action = actions.sample()
                chosen.append(actions.log_prob(action))
                rewards.append(float(action == 1))
            returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
            entropy = actions.entropy()
            loss = -(torch.stack(chosen) * (returns - baseline)).sum() - 0.01 * entropy
        baseline = 0.9 * baseline + 0.1 * float(returns.mean())
        look.at(loss, optimizer)
        step(look, loss, optimizer)


@loop
def actor_critic_with_two_backwards(look: Look) -> None:
    actor, critic = mlp(3, 8, 1), mlp(4, 8, 1)
    target = copy.deepcopy(critic).requires_grad_(False)
    opt_a, opt_c = torch.optim.Adam(actor.parameters()), torch.optim.Adam(critic.parameters())
    for _ in range(2):
        state, action, reward = torch.randn(8, 3), torch.randn(8, 1), torch.randn(8, 1)
        with look.forward():
            with torch.no_grad():
                wanted = reward + 0.9 * target(torch.cat([state, actor(state)], 1))
            loss = F.smooth_l1_loss(critic(torch.cat([state, action], 1)), wanted)
        look.at(loss, opt_c)
        step(look, loss, opt_c)
        critic.requires_grad_(False)
        with look.forward():
            loss = -critic(torch.cat([state, actor(state)], 1)).mean()
        look.at(loss, opt_a)
        step(look, loss, opt_a)
        critic.requires_grad_(True)


@loop
def contrastive_with_a_queue(look: Look) -> None:
    query = mlp(4, 8, 3)
    key = copy.deepcopy(query).requires_grad_(False)
    queue, at = F.normalize(torch.randn(16, 3), dim=1), 0
    optimizer = torch.optim.SGD(query.parameters(), 0.1, momentum=0.9)
    for _ in range(3):
        x = torch.randn(4, 4)
        with torch.no_grad():
            for old, new in zip(key.parameters(), query.parameters(), strict=True):
                old.mul_(0.99).add_(new, alpha=0.01)
            k = F.normalize(key(x + 0.1), dim=1)
        with look.forward():
            q = F.normalize(query(x), dim=1)
            scores = torch.cat([(q * k).sum(1, keepdim=True), q @ queue.clone().T], 1)
            loss = F.cross_entropy(scores / 0.2, torch.zeros(4, dtype=torch.long))
        look.at(loss, optimizer)
        step(look, loss, optimizer)
        queue[at : at + 4] = k
        at = (at + 4) % 16


@loop
def byol(look: Look) -> None:
    online, predictor = mlp(4, 8, 3), mlp(3, 4, 3)
    target = copy.deepcopy(online)
    for each in target.parameters():
        each.requires_grad = False
    optimizer = torch.optim.Adam([*online.parameters(), *predictor.parameters()])
    for _ in range(2):
        x = torch.randn(8, 4)
        with look.forward():
            with torch.no_grad():
                wanted = target(x + 0.1)
            loss = 2 - 2 * F.cosine_similarity(predictor(online(x)), wanted).mean()
        look.at(loss, optimizer)
        step(look, loss, optimizer)
        with torch.no_grad():
            for old, new in zip(target.parameters(), online.parameters(), strict=True):
                old.add_(new - old, alpha=0.01)


class Adapted(nn.Module):
    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, base.in_features))
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + F.linear(F.linear(x, self.a), self.b)


@loop
def lora(look: Look) -> None:
    net = nn.Sequential(Adapted(nn.Linear(4, 8), 2), nn.ReLU(), Adapted(nn.Linear(8, 3), 2))
    trained = [each for each in net.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(trained, 1e-2)
    for _ in range(3):
        x, y = torch.randn(8, 4), torch.randint(3, (8,))
        with look.forward():
            loss = F.cross_entropy(net(x), y)
        look.at(loss, optimizer)
        step(look, loss, optimizer)


@loop
def gradient_accumulation(look: Look) -> None:
    net = mlp(4, 8, 3)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    optimizer.zero_grad()
    for number in range(4):
        x, y = torch.randn(4, 4), torch.randint(3, (4,))
        with look.forward():
            loss = F.cross_entropy(net(x), y) / 2
        look.at(loss, optimizer).backward()
        look.again()
        if number % 2:
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            look.again()
            optimizer.zero_grad()
            look.again()


@loop
def autocast_to_bfloat16(look: Look) -> None:
    net = nn.Sequential(nn.Linear(4, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(2):
        x, y = torch.randn(8, 4), torch.randint(3, (8,))
        with look.forward(), torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(net(x), y)
        look.at(loss, optimizer)
        step(look, loss, optimizer)


@loop
def grad_scaler(look: Look) -> None:
    for enabled in (True, False):
        net = mlp(4, 8, 3)
        optimizer = torch.optim.Adam(net.parameters())
        scaler = torch.amp.GradScaler("cpu", enabled=enabled)
        for clip in (1e-2, 1e3, 0):
            x, y = torch.randn(8, 4), torch.randint(3, (8,))
            optimizer.zero_grad()
            with look.forward():
                loss = scaler.scale(F.cross_entropy(net(x), y))
            look.at(loss, optimizer).backward()
            look.again()
            if clip:
                scaler.unscale_(optimizer)
                look.again()
                nn.utils.clip_grad_norm_(net.parameters(), clip)
                look.again()
            scaler.step(optimizer)
            scaler.update()
            look.again()


@loop
def checkpointed_transformer(look: Look) -> None:
    blocks = nn.ModuleList(
        nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True) for _ in range(2)
    )
    head = nn.Linear(8, 3)
    optimizer = torch.optim.AdamW([*blocks.parameters(), *head.parameters()])
    for reentrant in (False, True):
        x = torch.randn(2, 5, 8, requires_grad=reentrant)
        with look.forward():
            h = x
            for block in blocks:
                h = checkpoint(block, h, use_reentrant=reentrant)
            loss = head(h.mean(1)).square().mean()
        look.at(loss, optimizer)
        step(look, loss, optimizer)


@loop
def weight_and_spectral_norm(look: Look) -> None:
    first = nn.utils.parametrizations.weight_norm(nn.Linear(4, 8))
    second = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 1))
    net = nn.Sequential(first, nn.LeakyReLU(), second)
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(2):
        with look.forward():
            loss = net(torch.randn(8, 4)).square().mean() + net(torch.randn(8, 4)).mean()
        look.at(loss, optimizer)
        step(look, loss, optimizer)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(11, 6, padding_idx=0), nn.Linear(6, 11, bias=False)
        self.body = nn.GRU(6, 6, batch_first=True)
        self.head.weight = self.table.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.body(self.table(tokens))[0])


@loop
def tied_language_model_with_padding(look: Look) -> None:
    net = Tied()
    optimizer = torch.optim.Adam(net.parameters())
    tokens = torch.randint(1, 11, (3, 7))
    tokens[1, 4:] = tokens[2, 2:] = 0
    for _ in range(2):
        with look.forward():
            scores = net(tokens[:, :-1])
            loss = F.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=0)
            seen = tokens[:, 1:] != 0
            right = (scores.argmax(2) == tokens[:, 1:])[seen].float().mean().item()
        assert 0 <= right <= 1
        look.at(loss, optimizer)
        step(look, loss, optimizer)


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(4, 4)
        self.experts = nn.ModuleList(mlp(4, 6, 4) for _ in range(4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        shares = self.gate(x).softmax(1)
        top, chosen = shares.topk(2, 1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, place = (chosen == number).nonzero(as_tuple=True)
            if len(rows):
                out = out.index_add(0, rows, expert(x[rows]) * top[rows, place].unsqueeze(1))
        load = F.one_hot(chosen, 4).float().mean((0, 1))
        return out, 4 * (load * shares.mean(0)).sum()


@loop
def mixture_of_experts(look: Look) -> None:
    net = Experts()
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(3):
        x = torch.randn(3, 4)
        with look.forward():
            out, balance = net(x)
            loss = F.mse_loss(out, -x) + 0.01 * balance
        look.at(loss, optimizer)
        step(look, loss, optimizer)


@loop
def meta_learning_through_a_step(look: Look) -> None:
    net = mlp(2, 8, 1)
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(2):
        x, y = torch.randn(6, 2), torch.randn(6, 1)
        with look.forward():
            inner = dict(net.named_parameters())
            first = F.mse_loss(torch.func.functional_call(net, inner, x[:3]), y[:3])
            slopes = torch.autograd.grad(first, list(inner.values()), create_graph=True)
            fast = {k: v - 0.1 * g for (k, v), g in zip(inner.items(), slopes, strict=True)}
            loss = F.mse_loss(torch.func.functional_call(net, fast, x[3:]), y[3:])
        look.at(loss, optimizer)
        step(look, loss, optimizer)


@loop
def physics_informed(look: Look) -> None:
    net = mlp(1, 16, 16, 1)
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(2):
        t = torch.linspace(0, 1, 12).unsqueeze(1).requires_grad_()
        with look.forward():
            u = net(t)
            (du,) = torch.autograd.grad(u.sum(), t, create_graph=True)
            (ddu,) = torch.autograd.grad(du.sum(), t, create_graph=True)
            start = net(torch.zeros(1, 1))
            loss = (ddu + 4 * u).square().mean() + 100 * (start - 1).square().mean()
        look.at(loss, optimizer)
        step(look, loss, optimizer)


@loop
def stochastic_weight_averaging(look: Look) -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    average = torch.optim.swa_utils.AveragedModel(net)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    schedule = torch.optim.swa_utils.SWALR(optimizer, 0.05)
    for _ in range(3):
        x, y = torch.randn(16, 4), torch.randint(3, (16,))
        with look.forward():
            loss = F.cross_entropy(net(x), y, label_smoothing=0.1)
        look.at(loss, optimizer)
        step(look, loss, optimizer)
        average.update_parameters(net)
        schedule.step()


@loop
def tasks_weighted_by_uncertainty(look: Look) -> None:
    body, one, two = mlp(4, 8, 6), nn.Linear(6, 1), nn.Linear(6, 3)
    log_vars = nn.Parameter(torch.zeros(2))
    parts = [*body.parameters(), *one.parameters(), *two.parameters(), log_vars]
    optimizer = torch.optim.Adam(parts)
    for _ in range(2):
        x, y, labels = torch.randn(8, 4), torch.randn(8, 1), torch.randint(3, (8,))
        with look.forward():
            h = body(x)
            losses = torch.stack([F.mse_loss(one(h), y), F.cross_entropy(two(h), labels)])
            loss = (losses * (-log_vars).exp() + log_vars).sum()
        look.at(loss, optimizer)
        step(look, loss, optimizer)


@loop
def lbfgs(look: Look) -> None:
    net = mlp(2, 8, 1)
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3)
    x, y = torch.randn(12, 2), torch.randn(12, 1)

    def closure() -> Tensor:
        optimizer.zero_grad()
        with look.forward():
            loss = F.mse_loss(net(x), y)
        look.at(loss, optimizer).backward()
        look.again()
        return loss

    for _ in range(2):
        optimizer.step(closure)
        look.again()


@loop
def sparse_embedding_bag(look: Look) -> None:
    bag, head = nn.EmbeddingBag(20, 5, sparse=True), nn.Linear(5, 3)
    sparse = torch.optim.SparseAdam(bag.parameters())
    dense = torch.optim.Adam(head.parameters())
    for _ in range(2):
        words, starts = torch.randint(20, (10,)), torch.tensor([0, 3, 7])
        with look.forward():
            loss = F.cross_entropy(head(bag(words, starts)), torch.tensor([0, 1, 2]))
        look.at(loss, sparse, dense)
        step(look, loss, sparse, dense)


@loop
def quantisation_aware(look: Look) -> None:
    net = mlp(4, 8, 3)
    scale = nn.Parameter(torch.tensor(0.1))
    optimizer = torch.optim.Adam([*net.parameters(), scale])
    for _ in range(2):
        x, y = torch.randn(8, 4), torch.randint(3, (8,))
        with look.forward():
            h = net(x)
            level = h / scale
            rounded = level + (level.round() - level).detach()
            loss = F.cross_entropy(rounded.clamp(-8, 7) * scale, y)
        look.at(loss, optimizer)
        step(look, loss, optimizer)


@loop
def adversarial_training(look: Look) -> None:
    net = mlp(4, 8, 3)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(2):
        x, y = torch.randn(8, 4), torch.randint(3, (8,))
        delta = torch.zeros_like(x, requires_grad=True)
        with look.forward():
            loss = F.cross_entropy(net(x + delta), y)
        look.at(loss).backward()
        look.again()
        assert delta.grad is not None
        worst = x + 0.1 * delta.grad.sign()
        with look.forward():
            loss = F.cross_entropy(net(worst), y)
        look.at(loss, optimizer)
        step(look, loss, optimizer)


@loop
def message_passing_on_a_graph(look: Look) -> None:
    lift, mix, head = nn.Linear(3, 6), nn.Linear(12, 6), nn.Linear(6, 2)
    optimizer = torch.optim.Adam([*lift.parameters(), *mix.parameters(), *head.parameters()])
    source, target = torch.randint(7, (15,)), torch.randint(7, (15,))
    for _ in range(2):
        with look.forward():
            h = lift(torch.randn(7, 3)).relu()
            counts = torch.zeros(7, 1).index_add(0, target, torch.ones(15, 1)).clamp(min=1)
            got = torch.zeros(7, 6).index_add(0, target, h[source]) / counts
            got = got.scatter_add(0, target.unsqueeze(1).expand(-1, 6), h[source])
            loss = head(mix(torch.cat([h, got], 1)).tanh()).square().mean()
        look.at(loss, optimizer)
        step(look, loss, optimizer)


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 1)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        h = self.attend(x, x, x, key_padding_mask=padding, attn_mask=causal, need_weights=False)[0]
        out = self.head(h).squeeze(2)
        return (out.square() * ~padding).sum() / (~padding).sum()


@loop
def masked_attention_and_packed_sequences(look: Look) -> None:
    net, body = Masked(), nn.LSTM(8, 8, batch_first=True)
    optimizer = torch.optim.Adam([*net.parameters(), *body.parameters()])
    lengths = torch.tensor([5, 3, 2])
    padding = torch.arange(5) >= lengths.unsqueeze(1)
    for _ in range(2):
        with look.forward():
            packed = nn.utils.rnn.pack_padded_sequence(torch.randn(3, 5, 8), lengths, True)
            h, _ = nn.utils.rnn.pad_packed_sequence(body(packed)[0], batch_first=True)
            last = h[torch.arange(3), lengths - 1]
            loss = net(h, padding) + 0.1 * last.square().mean()
        look.at(loss, optimizer)
        step(look, loss, optimizer)


@loop
def hooks_that_change_gradients(look: Look) -> None:
    net = mlp(4, 8, 3)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for parameter in net.parameters():
        parameter.register_hook(lambda g: g.clamp(-1, 1))
    net[0].register_full_backward_hook(lambda *_: None)
    for _ in range(2):
        with look.forward():
            h = net(torch.randn(8, 4))
            h.register_hook(lambda g: g * 0.5)
            loss = (h + h.sin()).square().mean()
        look.at(loss, optimizer)
        step(look, loss, optimizer)
        for parameter in net.parameters():
            assert parameter.grad is not None
            parameter.grad.add_(torch.randn_like(parameter), alpha=1e-3)
        optimizer.step()
        look.again()


@loop
def shared_block_by_design(look: Look) -> None:
    embed, block, head = nn.Linear(4, 8), mlp(8, 8, 8), nn.Linear(8, 3)
    heads = nn.ModuleList([head] * 3)
    optimizer = torch.optim.Adam([*embed.parameters(), *block.parameters(), *head.parameters()])
    for _ in range(2):
        x, y = torch.randn(8, 4), torch.randint(3, (8,))
        with look.forward():
            h, loss = embed(x), torch.zeros(())
            for each in heads:
                h = h + block(h)
                loss = loss + F.cross_entropy(each(h), y) / math.sqrt(len(heads))
        look.at(loss, optimizer)
        step(look, loss, optimizer)
