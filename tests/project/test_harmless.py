"""Using the widget changes no gradient, no random state and no graph: bit for bit."""

from __future__ import annotations

import json

import pytest
import torch
from fresh import fresh
from programs import PROGRAMS, backward, outputs_of

from gradwalk import GraphWidget, capture


def leaves_of(outputs):
    """The leaf tensors of a graph, in its order."""
    seen, order = set(), [output.grad_fn or output for output in outputs]
    leaves = []
    for node in order:
        if isinstance(node, torch.Tensor):
            leaves.append(node)
            continue
        if hasattr(node, "variable"):
            leaves.append(node.variable)
        for child, _ in node.next_functions:
            if child is not None and child not in seen:
                seen.add(child)
                order.append(child)
    return leaves


def dense(grad):
    return None if grad is None else grad.to_dense() if grad.is_sparse else grad


def same(a, b):
    if a is None or b is None:
        return a is b
    if a.is_nested:
        return all(same(x, y) for x, y in zip(a.unbind(), b.unbind(), strict=True))
    if a.is_meta:
        return a.shape == b.shape
    if a.layout != torch.strided:
        return a.layout == b.layout and all(map(same, sparse_parts(a), sparse_parts(b)))
    return (
        a.stride() == b.stride()
        and a.dtype == b.dtype
        and a.layout == b.layout
        and torch.equal(bits(a), bits(b))
    )


def bits(tensor):
    """The very bytes, so that 0.0 and -0.0, or two kinds of NaN, differ."""
    real = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    # A tensor of one element is contiguous with any stride, which view() of another dtype refuses.
    return real.contiguous().as_strided((real.numel(),), (1,)).view(torch.uint8)


def sparse_parts(tensor):
    """Return the indices and values of a sparse tensor, or all of a compressed one."""
    if tensor.layout == torch.sparse_coo:
        return tensor._indices(), tensor._values()
    return (tensor.to_dense(),)


def run(name, *, watched):
    outputs = outputs_of(name)
    widget = GraphWidget(outputs, names={}) if watched else None
    random_before = torch.get_rng_state()
    for step in range(2):
        if widget is not None:
            for i in range(len(widget.model["nodes"])):
                widget.selected = i
                json.dumps(widget.details, allow_nan=False)
            assert torch.equal(torch.get_rng_state(), random_before)
        if step == 0:
            backward(outputs)
            random_before = torch.get_rng_state()
    grads = [dense(leaf.grad) for leaf in leaves_of(outputs)]
    if widget is not None:
        assert widget._fault is None
        widget.close()
    return grads, torch.get_rng_state()


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_and_random_state_are_those_without_the_widget(name):
    plain, random_plain = run(name, watched=False)
    watched, random_watched = run(name, watched=True)
    assert len(plain) == len(watched)
    assert all(same(a, b) for a, b in zip(plain, watched, strict=True))
    assert torch.equal(random_plain, random_watched)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_graph_is_the_same_after_looking_at_it(name):
    outputs = outputs_of(name)
    before = capture(outputs)
    widget = GraphWidget(outputs, names={})
    for i in range(len(before)):
        widget.selected = i
    widget.close()
    after = capture(outputs)
    assert list(before.nodes(data=True)) == list(after.nodes(data=True))
    assert list(before.edges(data=True)) == list(after.edges(data=True))


def test_looking_during_grad_mode_off_or_inference_changes_nothing():
    (output,) = outputs_of("squared_difference")
    widget = GraphWidget(output, names={})
    with torch.inference_mode():
        widget.selected = 1
    with torch.no_grad():
        widget.selected = 2
    output.backward()
    assert widget.details["id"] == 2


def test_the_users_hooks_run_once_and_see_the_same():
    calls = []
    x = torch.ones(3, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda t: calls.append(("post", t.grad.clone())))
    y = x * 2
    y.register_hook(lambda grad: calls.append(("hook", grad)))
    widget = GraphWidget(y.sum(), names={})
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert [kind for kind, _ in calls] == ["hook", "post"] * 2
    widget.close()


def test_bits_tell_what_equality_does_not():
    assert not same(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert same(torch.tensor([float("nan")]), torch.tensor([float("nan")]))
    assert not same(torch.ones(2, 3), torch.ones(3, 2).t())


def strided_gradients(watched):
    """Leaves whose .grad torch lays out in ways of its own: transposed, expanded, channels last."""
    torch.manual_seed(0)
    a = torch.randn(3, 4).t().requires_grad_()
    b = torch.randn(5, requires_grad=True)
    c = torch.randn(1, 3, 4, 4).to(memory_format=torch.channels_last).requires_grad_()
    d = torch.randn(100, 1, requires_grad=True)
    loss = (a * a).sum() + b.sum() + torch.relu(c).mean() + d.expand(100, 3).sum()
    widget = GraphWidget(loss, names={}) if watched else None
    loss.backward(retain_graph=True)
    first = [leaf.grad.clone(memory_format=torch.preserve_format) for leaf in (a, b, c, d)]
    loss.backward()
    if widget is not None:
        assert widget._fault is None
        widget.close()
    return [*first, *(leaf.grad for leaf in (a, b, c, d))]


def test_the_layout_of_every_gradient_is_torchs():
    plain, watched = strided_gradients(False), strided_gradients(True)
    assert all(same(x, y) for x, y in zip(plain, watched, strict=True))


def train(watched):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 20), torch.nn.Dropout(0.5), torch.nn.ReLU(), torch.nn.Linear(20, 1)
    )
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(4):
        loss = model(torch.randn(8, 6)).pow(2).mean()
        widget = GraphWidget(loss, names=model) if watched else None
        if widget is not None:
            widget.selected = 2
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        if widget is not None:
            assert widget.details["id"] == 2
            widget.close()
    return [parameter.detach().clone() for parameter in model.parameters()]


def test_training_with_a_widget_on_every_step_ends_with_the_same_weights():
    assert all(same(a, b) for a, b in zip(train(False), train(True), strict=True))


@pytest.mark.parametrize("enabled", [True, False])
def test_the_callers_grad_mode_stays(enabled):
    (output,) = outputs_of("linear")
    with torch.set_grad_enabled(enabled):
        widget = GraphWidget(output, names={})
        widget.selected = 1
        assert widget.details is not None
        assert torch.is_grad_enabled() is enabled
    widget.close()


def test_second_order_gradients_are_those_without_the_widget():
    def slope(watched):
        torch.manual_seed(0)
        x = torch.randn(80, requires_grad=True)
        y = (x**3).sum()
        widget = GraphWidget(y, names={}) if watched else None
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        if widget is not None:
            widget.selected = 1
            assert widget.details["grad_input"] is not None
        (second,) = torch.autograd.grad(first.sum(), x)
        return first.detach(), second

    assert all(same(a, b) for a, b in zip(slope(False), slope(True), strict=True))


def test_an_error_of_backward_is_the_same_with_the_widget():
    def failure(watched):
        x = torch.ones(2, requires_grad=True)
        y = (x * x).sum()
        widget = GraphWidget(y, names={}) if watched else None
        y.backward()
        with pytest.raises(RuntimeError) as raised:
            y.backward()
        return type(raised.value), str(raised.value), widget and widget._fault

    assert failure(False) == failure(True)


@pytest.mark.parametrize("accelerator", [None, "cuda"])
def test_importing_imports_neither_widgets_nor_networkx(accelerator):
    slow = ["networkx", "anywidget", "ipywidgets", "IPython", "traitlets"]
    found = fresh(
        f"""
        if {accelerator!r}:
            torch.accelerator.current_accelerator = lambda *_: torch.device({accelerator!r})
        before = set(sys.modules)
        import gradwalk
        print([name for name in {slow} if name in set(sys.modules) - before])
        assert set(gradwalk.__all__) <= set(dir(gradwalk))
        w = torch.ones(3, requires_grad=True)
        recording = gradwalk.record((w * 2).sum())
        recording.cursor = 1
        print([name for name in {slow} if name in set(sys.modules) - before])
        for name in gradwalk.__all__:
            getattr(gradwalk, name)
        try:
            gradwalk.no_such_thing
        except AttributeError as error:
            print(error)
        """,
        start="import sys\nimport torch\n",
    )
    assert found.splitlines() == ["[]", "[]", "module 'gradwalk' has no attribute 'no_such_thing'"]
