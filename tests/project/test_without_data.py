"""Fake and meta tensors have no values: every call works without them, or says what to give."""

from __future__ import annotations

import contextlib

import pytest
import torch
import torch.nn.functional as F
from fresh import fresh
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.testing._internal.two_tensor import TwoTensor

import gradwalk
from gradwalk import (
    GraphWidget,
    capture,
    check,
    compare,
    compare_numerics,
    contributions,
    dependencies,
    diagnose,
    explain_grad,
    held,
    interact,
    load,
    make_dot,
    plan,
    record,
    save,
    testing,
    watch,
    what_if,
)
from gradwalk.checks.memory import saved_memory
from gradwalk.graph.capture import capture_nodes
from gradwalk.graph.names import read_names
from gradwalk.graph.outputs import read_outputs
from gradwalk.torch_api.reading import has_data, why_unreadable

NUMBERS = ("values", "min", "max", "mean", "norm", "nan", "inf", "zeros")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.norm = nn.LayerNorm(8)
        self.conv = nn.Conv1d(8, 8, 3, padding=1)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.out = nn.Linear(8, 16)
        self.unused = nn.Linear(2, 2)

    def forward(self, ids):
        x = self.norm(self.embedding(ids))
        x = self.conv(x.transpose(1, 2)).transpose(1, 2).relu()
        x = torch.cat([x, x.tanh() * 2.5], 1)
        return self.out(self.attention(x, x, x)[0][:, 1:])


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad


class Made:
    """A model whose parameters have no data, and the mode that they were made under."""

    def __init__(self, kind):
        self.mode = {
            "fake": FakeTensorMode,
            "looking under the mode": FakeTensorMode,
            "beside real ones": lambda: FakeTensorMode(allow_non_fake_inputs=True),
            "meta": lambda: torch.device("meta"),
        }[kind]()
        self.looking = self.mode if kind.startswith("looking") else contextlib.nullcontext()
        self.scale = nn.Parameter(torch.ones(16)) if kind.startswith("beside") else 1.0
        with self.mode:
            self.net = Net()
            self.ids = torch.zeros(2, 3, dtype=torch.long)

    def logits(self):
        with self.mode:
            return (self.net(self.ids) * self.scale).flatten(0, 1)

    def loss(self):
        with self.mode:
            return F.cross_entropy(self.logits(), torch.zeros(10, dtype=torch.long))

    def widget(self, **options):
        return GraphWidget(self.loss(), names=self.net, **options)

    def small(self):
        with self.mode:
            return torch.ones(3).requires_grad_()


@pytest.fixture(params=["fake", "looking under the mode", "beside real ones", "meta"])
def made(request):
    made = Made(request.param)
    with made.looking:
        yield made


def summaries(value):
    if isinstance(value, dict):
        if "numel" in value:
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from summaries(each)


def look_at_all(widget):
    """Open every node; nothing fails, and no number is shown of what has no data."""
    for node in range(len(widget.model["nodes"])):
        widget.selected = node
        assert widget.details["failed"] == []
        for summary in summaries(widget.details):
            shown = [name for name in NUMBERS if summary[name] is not None]
            assert not shown or "holds no values" not in str(summary["note"])
    assert widget._fault is None


def find(widget, net):
    found = diagnose(widget, names=net)
    assert {"failed", "nan", "zero"}.isdisjoint(each.kind for each in found)
    assert "no-grad" in {each.kind for each in found}
    return found


def test_a_widget_draws_steps_and_finds(made):
    widget = made.widget()
    look_at_all(widget)
    widget.backward()
    look_at_all(widget)
    for cursor in (0, 3, 1):
        widget.cursor = cursor
    widget.step()
    look_at_all(widget)
    find(widget, made.net)
    optimizer = torch.optim.SGD(made.net.parameters(), lr=0.1)
    assert all(each.kind != "failed" for each in diagnose(widget, optimizer=optimizer))
    for written in (str(widget), widget.to_html(), widget.to_svg(), widget.to_dot()):
        assert written


def test_small_budget_is_no_reason(made):
    widget = made.widget(max_bytes=0)
    widget.backward()
    look_at_all(widget)
    assert "max_bytes" not in str(widget.details)
    find(widget, made.net)


def test_a_graph_is_followed(made):
    widget = made.widget()
    widget.backward()
    widget.update(made.loss())
    widget.backward()
    look_at_all(widget)


def test_a_pass_that_the_program_runs(made):
    loss = made.loss()
    widget = GraphWidget(loss, names=made.net)
    with made.mode:
        loss.backward()
    look_at_all(widget)
    find(widget, made.net)


def test_a_grad_that_was_there_before_travels(made):
    x = made.small()
    with made.mode:
        y = (x * x).sum()
        x.grad = torch.ones(3)
    widget = GraphWidget(y)
    widget.backward()
    held, version = x.grad, x.grad._version
    widget.cursor = 0
    widget.cursor = 3
    assert x.grad is held
    assert x.grad._version == version
    assert "changed by something else" not in str(widget.details)


def test_under_watch(made):
    with watch():
        loss = made.loss()
    widget = GraphWidget(loss, names=made.net)
    widget.backward()
    look_at_all(widget)
    find(widget, made.net)
    assert widget.to_html()


def test_files(made, tmp_path):
    widget = made.widget()
    widget.backward()
    loaded = load(save(widget, tmp_path / "file.gw"))
    look_at_all(loaded)
    assert loaded.to_html()
    assert all(each.kind != "failed" for each in loaded.diagnose())
    assert save(made.loss(), tmp_path / "loss.gw")
    assert str(make_dot(made.loss()))


def test_a_recording(made, tmp_path):
    recording = record(made.loss(), names=made.net)
    assert len(recording.steps) > 20
    assert str([each.contributions for each in recording.steps])
    look_at_all(GraphWidget(recording))
    assert save(recording, tmp_path / "recording.gw")
    assert all(each.kind != "failed" for each in diagnose(recording, names=made.net))


def test_capture_and_explanations(made):
    loss = made.loss()
    assert len(capture(loss, names=made.net)) > 20
    weight, unused = made.net.out.weight, made.net.unused.weight
    assert "no backward pass has added" in explain_grad(weight, loss)
    with made.mode:
        loss.backward()
    assert "holds a gradient" in explain_grad(weight, loss)
    assert "finite" not in explain_grad(made.net, loss)
    assert "is not part of the graph" in explain_grad(unused, loss)


def test_comparisons(made):
    real = made.loss() if made.looking is made.mode else _real_loss()
    for one, other in ((made.loss(), made.loss()), (made.loss(), real), (real, made.loss())):
        compare(one, other).backward()
    found = str(compare_numerics(made.loss(), made.loss()))
    assert "No numbers of the two" in found or "0 gradients that were" in found


def _real_loss():
    return F.cross_entropy(
        Net()(torch.zeros(2, 3, dtype=torch.long)).flatten(0, 1), torch.zeros(10, dtype=torch.long)
    )


def test_experiments_name_what_they_need(made):
    loss = made.loss()
    for ask in (
        lambda: what_if(loss, cut=[1]),  # type: ignore[list-item]
        lambda: contributions(made.net.out.weight, loss),
        lambda: dependencies(made.logits(), made.net.out.weight),
    ):
        with pytest.raises(RuntimeError, match=r"holds no values. Run the program on real ten"):
            ask()
    with pytest.raises(ValueError, match=r"(meta|fake) tensor.*Give a real one\.$"):
        check(Square.apply(made.small()))
    with pytest.raises(ValueError, match=r"a (meta|fake) tensor, which has no number"):
        interact(lambda x: x * 2, x=made.small().detach())


def test_a_gradient_is_made_of_the_output(made):
    y = Square.apply(made.small())
    widget = GraphWidget(y)
    widget.backward(gradient=torch.ones_like(y))
    look_at_all(widget)
    if made.mode != torch.device("meta"):
        other = FakeTensorMode().from_tensor(torch.empty(3, device="cpu"))
        with pytest.raises(ValueError, match=r"such as torch.ones_like\(y\)\.$"):
            widget.backward(gradient=other)


def test_a_real_gradient_for_a_fake_output():
    y = Square.apply(Made("fake").small())
    with pytest.raises(ValueError, match=r"such as torch.ones_like\(y\)\.$"):
        GraphWidget(y).backward(gradient=torch.ones(3))


def test_no_warning_of_torch(recwarn):
    widget = Made("fake").widget()
    widget.backward()
    assert not [each for each in recwarn if "data pointer" in str(each.message)]


def test_checkpointed_and_sparse(made):
    with made.mode:
        linear = nn.Linear(4, 4)
        at = torch.ones(2, 4)
        y = torch.utils.checkpoint.checkpoint(
            lambda x: linear(x).relu(), at, use_reentrant=False
        ).sum()
        embedding = nn.Embedding(10, 4, sparse=True)
        z = embedding(torch.zeros(2, 3, dtype=torch.long)).sum()
    for output in (y, z):
        widget = GraphWidget(output)
        widget.backward()
        look_at_all(widget)
        assert widget.to_html()


def inside(tensor):
    """Tensors that hold others without data."""
    yield "itself", tensor
    yield "a subclass", TwoTensor(tensor, tensor)
    yield "a functional one", torch._to_functional_tensor(tensor)
    yield "a view", tensor.expand(2, 3)
    yield "a parameter", nn.Parameter(tensor)


@pytest.mark.parametrize("kind", ["fake", "meta"])
@pytest.mark.filterwarnings("ignore:Sparse invariant")
def test_what_has_no_data_is_seen_in_what_wraps_it(kind):
    made = Made(kind)
    for name, each in inside(made.small().detach()):
        assert "holds no values" in why_unreadable(each), name
    with made.mode:
        sparse = torch.sparse_coo_tensor(torch.zeros(1, 2, dtype=torch.long), torch.ones(2), (3,))
    assert not has_data(sparse)
    seen = []
    torch.func.grad(lambda x: (seen.append(why_unreadable(x)), (x * x).sum())[1])(
        made.small().detach()
    )
    assert "holds no values" in seen[0]
    assert all(why_unreadable(each) is None for _, each in inside(torch.ones(3)))


def memory_of(mode):
    with mode:
        net, ids = Net(), torch.zeros(2, 3, dtype=torch.long)
        loss = net(ids).sum()
    captured = capture_nodes(read_outputs((loss,), "test"), read_names({}, "test"))
    return saved_memory(captured).total


def test_fake_memory_is_that_of_real_tensors():
    assert memory_of(FakeTensorMode()) == memory_of(contextlib.nullcontext()) > 0


def test_memory_that_is_not_there_is_said_so():
    with FakeTensorMode():
        loss = nn.Linear(10**5, 10**5)(torch.ones(1000, 10**5)).exp().sum()
    found = {each.kind: each.message for each in diagnose(loss)}
    assert found["memory"].startswith("With real tensors, the graph would hold")


@pytest.mark.parametrize("place", [FakeTensorMode, lambda: torch.device("meta")])
def test_a_gradient_without_data_only_has_to_exist(place):
    with place():
        net = nn.Linear(2, 1)
        loss = net(torch.ones(2, 2)).sum()
    testing.assert_gradients(net, loss)
    with pytest.raises(AssertionError, match="1 of the 2 parameters of Linear fails"):
        testing.assert_gradients(net, net.weight.sum())


@pytest.mark.parametrize("place", [FakeTensorMode, lambda: torch.device("meta")])
def test_a_graph_without_data_is_held(place):
    with place():
        losses = [nn.Linear(2, 1)(torch.ones(2, 2)).sum()]
    assert held(losses[0]).holders == [
        "losses[0] (list, local of test_a_graph_without_data_is_held())"
    ]


def test_a_fake_leaf_on_a_device_that_torch_was_built_without():
    said = fresh(
        """
        from torch._subclasses.fake_tensor import FakeTensorMode
        with FakeTensorMode():
            x = torch.empty(3, device="cuda", requires_grad=True)
        for ask in (GraphWidget, capture, diagnose, lambda x: gradwalk.explain_grad(x, x)):
            try:
                ask(x)
            except RuntimeError as error:
                print(error)
        y = torch.ones(3, requires_grad=True).sum()
        GraphWidget(y, names={"x": x})
        print(gradwalk.explain_grad(x, y))
        """
    )
    assert said.count("built without cuda") == (4 if torch.version.cuda is None else 0)
    assert "is not part of the graph" in said


def test_plans(made):
    batch = torch.zeros(2, 3, dtype=torch.long)
    found = plan(made.net, batch, loss=lambda output: output.square().mean())
    real = plan(Net(), batch, loss=lambda output: output.square().mean())
    assert found.curve == real.curve
    assert found.advise("1 GB").fits
    with pytest.raises(ValueError, match="needs tensors with values"):
        GraphWidget(made.loss()).measure()


def test_all_that_is_public_was_asked():
    functions = {name for name in gradwalk.__all__ if name.islower()}
    # These have tests of their own.
    asked = set(globals()) | {
        "follow",
        "integrations",
        "last_failure",
        "results",
        "testing",
        "to_tensorboard",
        "types",
    }
    assert functions - asked == set()


def test_sizes_that_are_symbols_get_no_guard(tmp_path):
    environment = ShapeEnv()
    mode = FakeTensorMode(shape_env=environment)
    x = mode.from_tensor(torch.zeros(4, 3))
    with mode:
        net = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.LayerNorm(5))

    def loss():
        with mode:
            return (torch.cat([net(x) * x[:, :1]] * 2).reshape(-1) * 2).mean()

    one, other = loss(), loss()
    with mode:
        other.backward()
    before = [str(each.expr) for each in environment.guards]
    widget = GraphWidget(one, names=net)
    look_at_all(widget)
    widget.backward()
    widget.cursor = 2
    look_at_all(widget)
    look_at_all(load(save(widget, tmp_path / "file.gw")))
    assert all(each.kind != "failed" for each in diagnose(widget, names=net))
    compare(loss(), loss()).backward()
    record(loss(), names=net)
    assert [str(each.expr) for each in environment.guards] == before


@pytest.mark.parametrize("kind", ["fake", "meta"])
def test_a_scalar_without_numbers_is_called_by_its_shape(kind):
    device = "meta" if kind == "meta" else "cpu"
    with FakeTensorMode() if kind == "fake" else contextlib.nullcontext():
        w = torch.ones(3, requires_grad=True, device=device)
        with contextlib.closing(GraphWidget((w * 2).sum())) as widget:
            assert ">scalar<" in widget.to_svg()
            assert ">unknown<" not in widget.to_svg()
            widget.selected = 1
            note = widget.details["value_note"]
            assert note.startswith(f"The leaves of this graph are {kind} tensors")
