"""Each sentence of `explain_grad` is true of a program that torch itself agrees about."""

from __future__ import annotations

import pytest
import torch
from sentences import gets_no_gradient, leaf, short_sentences
from torch import nn

from gradwalk import GraphWidget, explain_grad, watch


def test_backward_has_not_run():
    w = leaf(2.0)
    loss = (w * 3).sum()
    assert w.grad is None
    text = short_sentences(explain_grad(w, loss))
    assert text.startswith("w is part of the graph of loss, but no backward pass has added")
    assert "loss.backward()" in text
    assert "no backward pass has added" in explain_grad(w)
    loss.backward(retain_graph=True)
    assert "holds a gradient" in explain_grad(w, loss)
    assert w.grad is not None


def test_without_a_name_and_without_a_loss():
    def parameters():
        yield leaf(2.0)

    text = explain_grad(next(parameters()))
    assert text.startswith("The .grad of this tensor is None")


def test_requires_grad_is_false():
    w, x = leaf(2.0), torch.tensor([3.0])
    loss = w * x
    assert "x.requires_grad is False" in short_sentences(explain_grad(x, loss))
    frozen = nn.Parameter(torch.ones(1), requires_grad=False)
    assert "frozen" in short_sentences(explain_grad(frozen, frozen * w))


def test_requires_grad_was_turned_off_later():
    w, x = leaf(2.0), leaf(3.0)
    loss = (w * x).sum()
    x.requires_grad_(False)
    text = explain_grad(x, loss)
    assert "has been turned off since the graph of loss was recorded" in text
    loss.backward()
    assert x.grad is None


def test_integers_have_no_gradient():
    index = torch.tensor([1, 2])
    text = short_sentences(explain_grad(index))
    assert "torch.int64" in text
    with pytest.raises(RuntimeError, match="floating point"):
        index.requires_grad_()


def test_an_intermediate_without_retain_grad():
    w = leaf(2.0)
    h = w * 3
    loss = h.sum()
    text = short_sentences(explain_grad(h, loss))
    assert "h is not a leaf" in text
    assert "h.retain_grad()" in text
    loss.backward(retain_graph=True)
    with pytest.warns(UserWarning, match="not a leaf"):
        assert h.grad is None
    h.retain_grad()
    assert "no backward pass has added" in explain_grad(h, loss)
    loss.backward()
    assert "h.grad holds a gradient" in explain_grad(h, loss)


@pytest.mark.parametrize("convert", [torch.Tensor.double, lambda w: w.to(torch.bfloat16)])
def test_a_converted_leaf_is_said_to_be_converted(convert):
    start = torch.ones(3, requires_grad=True)
    w = convert(start)
    loss = w.sum()
    loss.backward()
    said = explain_grad(w, loss)
    assert "w is not a leaf: a conversion of dtype or device" in said
    assert "made it from start, which gets the gradient" in said
    twice = (start * 2).double()
    assert "conversion" not in explain_grad(twice, twice.sum())


def test_asking_about_an_intermediate_warns_of_nothing(recwarn):
    h = leaf(2.0) * 3
    explain_grad(h, h.sum())
    assert not recwarn.list


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.second = nn.Linear(3, 1)
        self.unused = nn.Linear(2, 2)
        self.frozen = nn.Linear(2, 2).requires_grad_(False)

    def forward(self, x):
        return self.second(self.first(self.frozen(x)).relu())


def test_a_module_lists_what_has_no_gradient():
    net = Net()
    with torch.no_grad():
        net.first.bias.fill_(-1000)
    with watch():
        loss = net(torch.ones(4, 2)).sum()
    loss.backward(retain_graph=True)
    text = explain_grad(net, loss)
    head, *rows = text.splitlines()
    good = [n for n, p in net.named_parameters() if p.grad is not None and p.grad.any()]
    assert head == (f"{len(good)} of the 8 parameters of Net has a gradient.")
    found = {row[2:].partition(" (")[0]: row for row in rows}
    assert "frozen.weight and frozen.bias" in found["requires_grad is False"]
    assert "unused.weight and unused.bias" in found["Not part of the graph of the loss"]
    assert "first.weight, first.bias" in found["Zero everywhere"]
    assert "second.bias" in found["Has a gradient, but no pass was recorded"]
    assert set(found) == {
        "Has a gradient, but no pass was recorded",
        "requires_grad is False",
        "Not part of the graph of the loss",
        "Zero everywhere",
    }
    for name, parameter in net.named_parameters():
        if name.startswith("unused"):
            assert gets_no_gradient(parameter, loss)


def test_a_module_of_which_all_is_well():
    net = nn.Linear(2, 1)
    loss = net(torch.ones(1, 2)).sum()
    assert explain_grad(net, loss).startswith("None of the 2 parameters of Linear has")
    loss.backward()
    assert explain_grad(net) == "All 2 parameters of Linear have a gradient."
    assert explain_grad(net, loss) == (
        "All 2 parameters of Linear have a gradient. This graph has not recorded a backward pass, "
        "so other losses may have contributed."
    )
    assert "no parameters" in explain_grad(nn.ReLU(), loss)
    assert explain_grad(nn.PReLU()).startswith("The parameter of PReLU has no usable gradient")


def test_nan_is_no_gradient_to_be_content_with():
    net = nn.Linear(3, 1)
    given = torch.ones(2, 3)
    (net(given) - net(given)).sqrt().sum().backward()
    assert net.weight.grad.isnan().all()
    text = explain_grad(net)
    assert text.startswith("None of the 2")
    assert "NaN or infinite (2): weight and bias" in text


def test_a_long_list_is_cut_short():
    net = nn.Sequential(*(nn.Linear(1, 1) for _ in range(30)))
    text = explain_grad(net, leaf(1.0) * 2)
    assert "and 52 more" in text
    assert len(text) < 1000


def test_several_losses():
    w, x, y = leaf(1.0), leaf(2.0), leaf(3.0)
    losses = {"a": w * 2, "b": [x * 3, y.detach()]}
    assert "is part of the graph" in explain_grad(x, losses)
    assert "the loss" in explain_grad(y, losses)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((3.0,), "explain_grad() was given a float, which has no .grad"),
        ((None,), "explain_grad() was given a NoneType"),
        ((torch.ones(1), 3.0), "the number 3.0, which carries no autograd graph"),
        ((torch.ones(1), nn.ReLU()), "the module ReLU"),
    ],
)
def test_what_cannot_be_explained(given, message):
    with pytest.raises(TypeError) as error:
        explain_grad(*given)
    assert message in str(error.value)


def test_asking_changes_nothing():
    torch.manual_seed(0)
    net = Net()
    with watch():
        loss = net(torch.randn(4, 2)).sum()
    before = torch.get_rng_state()
    called = []
    net.first.weight.register_hook(lambda _: called.append(1))
    explain_grad(net, loss)
    explain_grad(net.first.weight, loss)
    assert all(parameter.grad is None for parameter in net.parameters())
    assert called == []
    assert torch.equal(before, torch.get_rng_state())
    loss.backward()
    wanted = [p.grad.clone() for p in net.parameters() if p.grad is not None]
    explain_grad(net, loss)
    kept = [p.grad for p in net.parameters() if p.grad is not None]
    assert all(map(torch.equal, wanted, kept))


def test_the_same_sentence_stands_in_the_panel():
    w, x = leaf(1.0, 2.0), leaf(3.0, 4.0)
    loss = ((w - 5).relu() + x).sum()
    widget = GraphWidget(loss)
    places = {node["name"]: node["id"] for node in widget.model["nodes"]}

    def panel(name):
        widget.selected = places[name]
        return widget.details["explained"]

    for step in (lambda: None, lambda: loss.backward(retain_graph=True)):
        step()
        assert panel("w") == explain_grad(w, loss)
        assert panel("x") == explain_grad(x, loss)
    assert "nowhere above 0" in panel("w")
    widget.selected = 0
    assert widget.details["explained"] is None, "of an operation another sentence tells"
    widget.close()


def test_a_name_that_a_finding_prints_is_known():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    net[0].requires_grad_(False)
    loss = net(torch.ones(2, 3)).sum()
    assert explain_grad("net.0.weight", loss).kind == "frozen"
    assert "requires_grad is False" in explain_grad("net.0.weight", loss)
    by_tensor = explain_grad(net[1].weight, loss)
    assert explain_grad("net.1.weight", loss) == by_tensor


def test_near_names_are_offered():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    loss = net(torch.ones(2, 3)).sum()
    for given in ("net.1.wieght", "1.weight", "net.1.weights"):
        with pytest.raises(ValueError, match=r"net\.1\.weight"):
            explain_grad(given, loss)
    with pytest.raises(ValueError, match=r"is called so\.$"):
        explain_grad("zzz", loss)
