"""`explain_grad` of what a loss is cut off from: true of programs that torch agrees about."""

from __future__ import annotations

import copy
import io
import pickle
import re
from typing import Any

import pytest
import torch
from sentences import gets_no_gradient, leaf, line, short_sentences
from torch import nn

from gradwalk import explain_grad, watch


def test_another_graph():
    w, x = leaf(2.0), leaf(3.0)
    loss, other = w * 2, x * 2
    assert gets_no_gradient(x, loss)
    assert gets_no_gradient(other, loss)
    for tensor, name in ((x, "x"), (other, "other")):
        text = short_sentences(explain_grad(tensor, loss))
        assert f"{name} is not part of the graph of loss" in text
        assert "gradwalk.watch()" in text
    with watch():
        loss = w * 2
    text = short_sentences(explain_grad(x, loss))
    assert "watch() saw no path from x to loss" in text


@pytest.mark.parametrize(
    ("cut", "words"),
    [
        (lambda x: x.detach(), "detach() at"),
        (lambda x: x.data, ".data at"),
        (lambda x: torch.tensor(x), "torch.tensor() at"),  # noqa: PLW0108
        (lambda x: x.long(), "integers"),
        (lambda x: x.argmax(), "integers"),
        (lambda x: x.item(), "read as Python numbers at"),
        (lambda x: torch.from_numpy(x.detach().numpy()), "detach() at"),
    ],
)
@pytest.mark.filterwarnings("ignore:To copy construct")
def test_a_cut_that_was_watched(cut, words):
    w, x = leaf(2.0), leaf(3.0)
    with watch():
        loss = (cut(x) * w).sum()
    assert gets_no_gradient(x, loss)
    text = short_sentences(explain_grad(x, loss))
    assert "No gradient reaches x from loss" in text
    assert words in text
    assert "test_explain_cuts.py:" in text


def test_the_line_of_the_cut_is_the_line_of_the_detach():
    w, x = leaf(2.0), leaf(3.0)
    with watch():
        d = x.detach()
        where = line()
        loss = w * d
    text = short_sentences(explain_grad(x, loss))
    assert where in text
    assert "`d = x.detach()`" in text
    assert where in explain_grad(d, loss)
    assert "d does not require grad" in explain_grad(d, loss)


def test_a_cut_further_along_the_way():
    w, x = leaf(2.0), leaf(3.0)
    with watch():
        hidden = (x * 2).exp()
        inner = hidden * 3
        loss = w * inner.detach()
    for tensor in (x, hidden):
        assert gets_no_gradient(tensor, loss)
        assert "detach() at" in explain_grad(tensor, loss)
    assert "computed from x" in explain_grad(x, loss)
    assert "the values of inner" in explain_grad(inner, loss)


def test_a_way_that_is_open_is_not_called_cut():
    w, x = leaf(2.0), leaf(3.0)
    with watch():
        loss = w * x.detach() + x
    assert not gets_no_gradient(x, loss)
    assert "is part of the graph" in explain_grad(x, loss)


def test_integers_are_the_reason_only_when_nothing_else_is():
    w, x = leaf(2.0), leaf(3.0, 4.0)
    with watch():
        loss = (w * x.detach().sum()) * x.argmax()
    text = explain_grad(x, loss)
    assert gets_no_gradient(x, loss)
    assert "detach()" in text
    assert "integers" not in text


def test_an_alias_is_inferred_without_watching():
    w, x = leaf(2.0), leaf(3.0)
    loss = w * x.detach()
    text = short_sentences(explain_grad(x, loss))
    assert "shares the memory of x" in text
    assert "inferred" in text


def test_no_grad():
    w, x = leaf(2.0), leaf(3.0)
    with watch():
        with torch.no_grad():
            region = line()
            hidden = x * 2
            where = line()
        loss = w * hidden
    assert gets_no_gradient(x, loss)
    for tensor in (x, hidden):
        text = short_sentences(explain_grad(tensor, loss))
        assert "torch.no_grad()" in text
        assert where in text
        assert region in text


def test_a_loss_without_grad():
    w = leaf(2.0)
    with watch(), torch.no_grad():
        loss = w * 2
        where = line()
    assert where in short_sentences(explain_grad(w, loss))
    assert "did not record" in explain_grad(loss)
    loss = w.detach() * 2
    text = short_sentences(explain_grad(w, loss))
    assert "loss does not require grad" in text
    with pytest.raises(RuntimeError, match="does not require grad"):
        loss.backward()


def test_inference_mode():
    w = leaf(2.0)
    with torch.inference_mode():
        h = w * 2
    assert h.is_inference()
    text = short_sentences(explain_grad(h))
    assert "h was made under torch.inference_mode()" in text
    with watch(), torch.inference_mode():
        h = w * 2
        where = line()
    assert where in explain_grad(h)
    assert "inference_mode" in explain_grad(w, h)


@pytest.mark.parametrize("count", [1, 9, 100])
def test_every_parameter_behind_one_cut_is_said_to_be_cut_off(count):
    encoder = nn.Sequential(*(nn.Linear(2, 2) for _ in range(count)))
    head = nn.Linear(2, 1)
    with watch():
        with torch.no_grad():
            h = encoder(torch.ones(1, 2))
            where = line()
        loss = head(h).sum()
    assert all(gets_no_gradient(parameter, loss) for parameter in encoder.parameters())
    text = explain_grad(encoder, loss)
    assert f"Cut off from the loss ({2 * count})" in text
    assert where in text


def kept(w):
    norm = nn.BatchNorm1d(1, affine=False)
    norm(w[:, None] * 2)
    return norm.running_mean


def stored(w):
    file = io.BytesIO()
    torch.save(w.detach(), file)
    file.seek(0)
    return torch.load(file)


UNSEEN = {
    "if": lambda w: torch.ones(3) if w[0] > 0 else torch.zeros(3),
    "bool": lambda w: 1.0 * sum(bool(each > 0.5) for each in w),
    "shape": lambda w: float(len(w[w > 0.5])),
    "text": lambda w: float(f"{w.sum():.3f}"),
    "deepcopy": lambda w: copy.deepcopy(w).detach(),
    "pickle": lambda w: pickle.loads(pickle.dumps(w.detach())),
    "file": stored,
    "Parameter": lambda w: nn.Parameter(w.detach() * 2),
    "data in place": lambda w: (one := torch.ones(3)).data.copy_(w.data) + 0 * one,
    "buffer": kept,
    "dlpack": lambda w: torch.from_dlpack(w.detach()),
}


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("way", UNSEEN)
def test_values_that_came_unseen_are_not_denied(way, inside):
    """The loss depends on w, as another w shows, and nothing says that it does not."""

    def loss_of(numbers):
        w = None if inside else torch.tensor(numbers, requires_grad=True)
        v = torch.tensor([0.3, 0.4, 0.5], requires_grad=True)
        with watch():
            w = torch.tensor(numbers, requires_grad=True) if w is None else w
            return w, (UNSEEN[way](w) * v).sum()

    w, loss = loss_of([0.9, 0.2, 1.7])
    assert loss != loss_of([-0.9, 0.8, 0.1])[1]
    assert gets_no_gradient(w, loss)
    text = short_sentences(explain_grad(w, loss))
    assert "watch() saw" in text or "reason is unknown" in text or "No gradient reaches" in text


@pytest.mark.parametrize("steps", [1, 9, 100])
def test_a_cut_behind_many_cuts_is_found(steps):
    first, cell = nn.Linear(2, 2), nn.Linear(2, 2)
    with watch():
        h = first(torch.ones(1, 2))
        for _ in range(steps):
            h = cell(h.detach()).tanh()
        loss = h.sum()
    assert gets_no_gradient(first.weight, loss)
    text = short_sentences(explain_grad(first.weight, loss))
    assert "No gradient reaches first.weight from loss: detach() at" in text


@pytest.mark.parametrize(
    ("around", "words"),
    [
        (lambda h: torch.tensor(h.tolist()), "read as Python numbers"),
        (
            lambda h: torch.tensor([[2 * v for v in row] for row in h.tolist()]),
            "If loss depends on",
        ),
        (lambda h: torch.from_numpy(h.detach().numpy() * 2), "If loss depends on"),
        (lambda h: torch.ones(1, 2) * (h.sum().item() * 2), "If loss depends on"),
        (lambda h: torch.ones(1, 2) * int(h.sum()), "If loss depends on"),
    ],
)
def test_values_that_left_torch_are_not_said_to_be_unused(around, words):
    first, second = nn.Linear(2, 2), nn.Linear(2, 1)
    with watch():
        h = first(torch.ones(1, 2))
        loss = second(around(h)).sum()
    assert gets_no_gradient(first.weight, loss)
    text = explain_grad(first.weight, loss)
    assert words in text
    assert "was not computed from it" not in text
    assert "watch()" not in text


def test_what_ran_outside_of_the_watch_is_not_denied():
    w, x = leaf(2.0), leaf(3.0)
    hidden = w * 2
    with watch():
        loss = hidden * 3
    text = explain_grad(x, loss)
    assert "the reason is unknown" in text


CUT = re.compile(r"(\d) in off else")


def one_way(w, other, off, kept):
    a = w * other
    b = a if 1 in off else a.detach()
    c = b * other
    kept += [a, b, c]
    d = c if 2 in off else c.detach()
    return (d * other).sum()


def two_ways(w, other, off, kept):
    a, b = w * 2, w * 3
    a = a if 1 in off else a.detach()
    b = b if 2 in off else b.detach()
    return (a * other + b * other).sum()


def ways_of_two(w, other, off, kept):
    a, b = w * 2, w * 3
    a1 = a if 1 in off else a.detach()
    b1 = b if 2 in off else b.detach()
    c, d = a1 * other, b1 * other
    kept += [a, b, a1, b1, c, d]
    e = c if 3 in off else c.detach()
    f = d if 4 in off else d.detach()
    return (e * other + f).sum()


def a_short_and_a_long_way(w, other, off, kept):
    a, b = w * 2, w * 3
    a1 = a if 1 in off else a.detach()
    b1 = b if 2 in off else b.detach()
    c = a1 * other
    kept += [a, b, a1, b1, c]
    e = c if 3 in off else c.detach()
    return (e * other + b1 * other).sum()


class TestSeveralCuts:
    @pytest.mark.parametrize("length", [2, 3])
    def test_all_of_a_chain_are_named(self, length: int):
        w, other = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        kept = []
        with watch():
            h = w * other
            for number in range(length):
                h = (h.detach() if number % 2 else torch.tensor(h.tolist())) * other
                kept.append(h)
            loss = h.sum()
        text = explain_grad(w, loss)
        assert "detach()" in text
        assert "a copy" in text or "item()" in text
        assert "Remove all of them" in text

    def test_of_two_ways_either_is_enough(self):
        w, other = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        with watch():
            first = (w * 2).detach()
            second = w.exp().data
            loss = (first * second * other).sum()
        text = explain_grad(w, loss)
        assert "detach()" in text
        assert ".data" in text
        assert "Without one of these" in text
        assert "Remove all" not in text

    @pytest.mark.parametrize("program", [one_way, two_ways, ways_of_two, a_short_and_a_long_way])
    def test_the_advice_helps(self, program: Any):
        w, other = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        kept: list[torch.Tensor] = []
        with watch():
            loss = program(w, other, (), kept)
        text = explain_grad(w, loss)
        if "Without one of these" in text:
            ways = [{int(number)} for number in CUT.findall(text)]
        else:
            ways = [set(map(int, CUT.findall(way))) for way in text.split("; by ")]
        assert all(ways)
        for way in ways:
            w.grad = None
            program(w, other, way, kept).backward()
            assert w.grad is not None
            for number in way:
                w.grad = None
                program(w, other, way - {number}, kept).backward()
                assert w.grad is None

    def test_one_alone_is_named_with_its_remedy(self):
        w, other = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        with watch():
            loss = (w.detach() * other + other.detach()).sum()
        text = explain_grad(w, loss)
        assert "w.detach()" in text or "values of w" in text
        assert "Leave out the detach()" in text
        assert "Remove all" not in text
