"""Each sentence of `explain_grad` is true of a program that torch itself agrees about."""

from __future__ import annotations

import copy
import inspect
import io
import pickle

import pytest
import torch
from torch import nn

from gradwalk import GraphWidget, explain_grad, watch


def leaf(*values):
    return torch.tensor(values, requires_grad=True)


def line(offset=-1):
    """The line above the caller's, as a sentence writes it."""
    frame = inspect.currentframe().f_back
    return f"test_explain.py:{frame.f_lineno + offset}"


def one_sentence(text):
    assert text.endswith(".")
    assert ". " not in text.replace(".grad is", "").replace("e.g. ", ""), text
    return text


def gets_no_gradient(tensor, loss):
    """torch's own word: backward from the loss would not reach the tensor."""
    return not loss.requires_grad or torch.autograd.grad(
        loss.sum(), tensor, retain_graph=True, allow_unused=True
    ) == (None,)


def test_backward_has_not_run():
    w = leaf(2.0)
    loss = (w * 3).sum()
    assert w.grad is None
    text = one_sentence(explain_grad(w, loss))
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
    assert "x.requires_grad is False" in one_sentence(explain_grad(x, loss))
    frozen = nn.Parameter(torch.ones(1), requires_grad=False)
    assert "frozen" in one_sentence(explain_grad(frozen, frozen * w))


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
    text = one_sentence(explain_grad(index))
    assert "torch.int64" in text
    with pytest.raises(RuntimeError, match="floating point"):
        index.requires_grad_()


def test_an_intermediate_without_retain_grad():
    w = leaf(2.0)
    h = w * 3
    loss = h.sum()
    text = one_sentence(explain_grad(h, loss))
    assert "h is not a leaf" in text
    assert "h.retain_grad()" in text
    loss.backward(retain_graph=True)
    with pytest.warns(UserWarning, match="not a leaf"):
        assert h.grad is None
    h.retain_grad()
    assert "no backward pass has added" in explain_grad(h, loss)
    loss.backward()
    assert "h.grad holds a gradient" in explain_grad(h, loss)


def test_asking_about_an_intermediate_warns_of_nothing(recwarn):
    h = leaf(2.0) * 3
    explain_grad(h, h.sum())
    assert not recwarn.list


def test_another_graph():
    w, x = leaf(2.0), leaf(3.0)
    loss, other = w * 2, x * 2
    assert gets_no_gradient(x, loss)
    assert gets_no_gradient(other, loss)
    for tensor, name in ((x, "x"), (other, "other")):
        text = one_sentence(explain_grad(tensor, loss))
        assert f"{name} is not part of the graph of loss" in text
        assert "gradwalk.watch()" in text
    with watch():
        loss = w * 2
    text = one_sentence(explain_grad(x, loss))
    assert "as far as watch() saw, loss was not computed from it" in text


@pytest.mark.parametrize(
    ("cut", "words"),
    [
        (lambda x: x.detach(), "detach() at"),
        (lambda x: x.data, ".data at"),
        (lambda x: torch.tensor(x), "torch.tensor() at"),  # noqa: PLW0108
        (lambda x: x.long(), "only way leads through integers"),
        (lambda x: x.argmax(), "only way leads through integers"),
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
    text = one_sentence(explain_grad(x, loss))
    assert "No gradient reaches x from loss" in text
    assert words in text
    assert "test_explain.py:" in text


def test_the_line_of_the_cut_is_the_line_of_the_detach():
    w, x = leaf(2.0), leaf(3.0)
    with watch():
        d = x.detach()
        where = line()
        loss = w * d
    text = one_sentence(explain_grad(x, loss))
    assert where in text
    assert "`d = x.detach()`" in text
    assert where in explain_grad(d, loss)
    assert "d needs no grad" in explain_grad(d, loss)


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
    assert "only way" not in text


def test_an_alias_is_inferred_without_watching():
    w, x = leaf(2.0), leaf(3.0)
    loss = w * x.detach()
    text = one_sentence(explain_grad(x, loss))
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
        text = one_sentence(explain_grad(tensor, loss))
        assert "torch.no_grad()" in text
        assert where in text
        assert region in text


def test_a_loss_without_grad():
    w = leaf(2.0)
    with watch(), torch.no_grad():
        loss = w * 2
        where = line()
    assert where in one_sentence(explain_grad(w, loss))
    assert "not recorded" in explain_grad(loss)
    loss = w.detach() * 2
    text = one_sentence(explain_grad(w, loss))
    assert "loss does not require grad" in text
    with pytest.raises(RuntimeError, match="does not require grad"):
        loss.backward()


def test_inference_mode():
    w = leaf(2.0)
    with torch.inference_mode():
        h = w * 2
    assert h.is_inference()
    text = one_sentence(explain_grad(h))
    assert "h was made under torch.inference_mode()" in text
    with watch(), torch.inference_mode():
        h = w * 2
        where = line()
    assert where in explain_grad(h)
    assert "inference_mode" in explain_grad(w, h)


def test_cleared_by_zero_grad():
    w = leaf(2.0)
    optimizer = torch.optim.SGD([w], 0.1)
    loss = (w * w).sum()
    loss.backward()
    optimizer.zero_grad()
    assert w.grad is None
    text = one_sentence(explain_grad(w, loss))
    assert "A backward pass has run through the graph of loss" in text
    assert "zero_grad()" in text


def test_cleared_where_the_last_operation_saves_nothing():
    w, b = leaf(2.0), leaf(1.0)
    loss = (w * w + b).exp().sum()
    loss.backward()
    b.grad = None
    assert "A backward pass has run" in explain_grad(b, loss)


def test_overwritten_with_zeros_by_zero_grad():
    w = leaf(2.0)
    optimizer = torch.optim.SGD([w], 0.1)
    loss = (w * w).sum()
    loss.backward(retain_graph=True)
    optimizer.zero_grad(set_to_none=False)
    assert w.grad.tolist() == [0.0]
    for text in (explain_grad(w, loss), explain_grad(w)):
        assert "zero_grad(set_to_none=False)" in one_sentence(text)
        assert "lets nothing through" not in text


def test_a_fresh_gradient_of_zeros_was_not_overwritten():
    w = leaf(2.0)
    loss = (w - w).sum()
    loss.backward()
    assert w.grad.tolist() == [0.0]
    text = explain_grad(w, loss)
    assert "cancelled out" in text
    assert "zero_grad" not in text


ONES, ZEROS = torch.ones(2), torch.zeros(2)


@pytest.mark.parametrize(
    ("forward", "words"),
    [
        (lambda w: (w - 5).relu(), "nowhere above 0"),
        (lambda w: nn.functional.threshold(w, 9.0, 0.0), "threshold, 9"),
        (lambda w: w.clamp(5, 6), "range from 5 to 6"),
        (lambda w: w.clamp(min=5), "range from 5"),
        (lambda w: nn.functional.hardtanh(w * 10), "range from -1 to 1"),
        (lambda w: (w * 1000).sigmoid(), "saturated"),
        (lambda w: (w * 1000).tanh(), "saturated"),
        (lambda w: w * ZEROS, "zero everywhere"),
        (lambda w: ZEROS * w, "zero everywhere"),
        (lambda w: w.masked_fill(ONES > 0, 1.0), "mask covers everything"),
        (lambda w: torch.where(ONES > 0, ONES, w), "condition selects nothing"),
        (lambda w: w.round(), "RoundBackward0"),
        (lambda w: nn.functional.linear(torch.zeros(3, 2), w[None]), "zero everywhere"),
        (lambda w: nn.functional.dropout(w, 1.0), "zero everywhere"),
    ],
)
def test_zero_everywhere(forward, words):
    w = leaf(1.0, 2.0)
    with watch():
        loss = forward(w).sum()
    loss.backward(retain_graph=True)
    assert not w.grad.any(), "torch says zero"
    text = one_sentence(explain_grad(w, loss))
    assert "w.grad is zero everywhere because" in text
    assert words in text
    assert "test_explain.py:" in text


@pytest.mark.parametrize(
    "forward",
    [
        lambda w: (w - 1.5).relu(),
        lambda w: w.clamp(1.5, 6),
        lambda w: w.clamp(2.0, 6),  # at the border the gradient passes
        lambda w: w.masked_fill(torch.tensor([True, False]), 1.0),
        lambda w: torch.where(torch.tensor([True, False]), w, ZEROS),
        lambda w: w * ZEROS + w,
        lambda w: (w - 5).relu() + w.tanh(),
    ],
)
def test_what_does_let_a_gradient_through_is_not_blamed(forward):
    w = leaf(1.0, 2.0)
    loss = forward(w).sum()
    loss.backward(retain_graph=True)
    assert w.grad.any(), "torch says not zero"
    assert "holds a gradient" in explain_grad(w, loss)
    w.grad = torch.zeros(2)
    assert "lets nothing through" not in explain_grad(w, loss)


def test_two_operations_block_two_ways():
    w = leaf(1.0, 2.0)
    loss = ((w - 5).relu() + w * ZEROS).sum()
    loss.backward(retain_graph=True)
    assert not w.grad.any()
    text = explain_grad(w, loss)
    assert "nowhere above 0" in text
    assert "MulBackward0" in text


def test_what_backward_freed_is_not_guessed():
    w = leaf(1.0, 2.0)
    loss = (w - 5).relu().sum()
    loss.backward()
    text = one_sentence(explain_grad(w, loss))
    assert "w.grad is zero everywhere" in text
    assert "retain_graph=True" in text


def test_zeros_from_elsewhere():
    w, x = leaf(1.0), leaf(2.0)
    w.grad = torch.zeros(1)
    text = one_sentence(explain_grad(w, x * 2))
    assert "not part of the graph" in text


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
    assert head == f"{len(good)} of the 8 parameters of Net have a gradient that is not zero."
    found = {row[2:].partition(" (")[0]: row for row in rows}
    assert "frozen.weight, frozen.bias" in found["requires_grad is False"]
    assert "unused.weight, unused.bias" in found["Not part of the graph of the loss"]
    assert "first.weight, first.bias" in found["Zero everywhere"]
    assert set(found) == {
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
    assert "0 of the 2" in explain_grad(net, loss)
    loss.backward()
    assert explain_grad(net, loss) == "Every parameter of Linear has a gradient (2 of 2)."
    assert "no parameters" in explain_grad(nn.ReLU(), loss)


def test_nan_is_no_gradient_to_be_content_with():
    net = nn.Linear(3, 1)
    given = torch.ones(2, 3)
    (net(given) - net(given)).sqrt().sum().backward()
    assert net.weight.grad.isnan().all()
    text = explain_grad(net)
    assert text.startswith("0 of the 2")
    assert "NaN or infinite (2): weight, bias" in text


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
    text = one_sentence(explain_grad(w, loss))
    assert "watch() saw" in text or "not known" in text or "No gradient reaches" in text


class ToNone(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return None


class ToZeros(ToNone):
    @staticmethod
    def backward(ctx, grad):
        return grad * 0


def test_what_a_custom_function_passed_is_considered():
    w = torch.ones(3, requires_grad=True)
    loss = ToNone.apply(w).sum()
    loss.backward()
    assert "or the backward of ToNoneBackward passed None" in explain_grad(w, loss)
    loss = ToZeros.apply(w).sum()
    loss.backward()
    assert "the backward of ToZerosBackward may have passed zeros" in explain_grad(w, loss)


@pytest.mark.parametrize("steps", [1, 9, 100])
def test_a_cut_behind_many_cuts_is_found(steps):
    first, cell = nn.Linear(2, 2), nn.Linear(2, 2)
    with watch():
        h = first(torch.ones(1, 2))
        for _ in range(steps):
            h = cell(h.detach()).tanh()
        loss = h.sum()
    assert gets_no_gradient(first.weight, loss)
    text = one_sentence(explain_grad(first.weight, loss))
    assert "No gradient reaches first.weight from loss: detach() at" in text


@pytest.mark.parametrize(
    ("around", "words"),
    [
        (lambda h: torch.tensor(h.tolist()), "read as Python numbers"),
        (lambda h: torch.tensor([[2 * v for v in row] for row in h.tolist()]), "not known for"),
        (lambda h: torch.from_numpy(h.detach().numpy() * 2), "not known for"),
        (lambda h: torch.ones(1, 2) * (h.sum().item() * 2), "not known for"),
        (lambda h: torch.ones(1, 2) * int(h.sum()), "not known for"),
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
    assert "why is not known" in text


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
    places = {node["name"]: node["id"] for node in widget.graph["nodes"]}

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
