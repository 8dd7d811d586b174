"""`compare_numerics`: where the numbers of two runs diverge."""

from __future__ import annotations

import contextlib
import math

import pytest
import torch
from programs import PROGRAMS, outputs_of
from torch import nn

from gradwalk import GraphWidget, capture, compare_numerics, record, save, watch

pytestmark = pytest.mark.one_python

DOUBLE, SINGLE, HALF = torch.float64, torch.float32, torch.bfloat16


def block(dtype):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 3)).to(dtype)
    return net, net(torch.linspace(-1, 1, 24).reshape(4, 6).to(dtype)).pow(2).mean()


class TestRows:
    def test_errors_are_those_of_the_gradients(self):
        (net_a, a), (net_b, b) = block(DOUBLE), block(HALF)
        found = compare_numerics(a, b, names={"net": net_a})
        assert all(each.grad is None for each in [*net_a.parameters(), *net_b.parameters()])
        a.backward()
        b.backward()
        rows = {row.label: row for row in found.rows}
        for (name, p), q in zip(net_a.named_parameters("net"), net_b.parameters(), strict=True):
            if name in rows:
                error = (q.grad.double() - p.grad).norm() / p.grad.norm()
                assert rows[name].grad_error == pytest.approx(float(error)), name
                error = (q.detach().double() - p.detach()).norm()
                error /= p.detach().norm() if p.detach().any() else 1
                assert rows[name].value_error == pytest.approx(float(error))
                assert rows[name].tolerance == (0.016, 1e-5)

    def test_the_first_is_the_first_in_the_order_of_computation(self):
        def chain(wrong):
            x = torch.linspace(0.1, 1, 5, requires_grad=True)
            with watch():
                h = torch.sin(x)
                h = torch.exp(h * (1.001 if wrong else 1.0))
                return torch.log(h + 1).sum()

        found = compare_numerics(chain(False), chain(True))
        assert (found.first.op, found.first.leaves) == ("MulBackward0", "value")
        assert "test_numerics.py" in found.first.line
        expected, wrong = found.first.numbers
        assert wrong == pytest.approx(1.001 * expected)
        order = [row.op for row in found.rows]
        assert (
            order.index("SinBackward0") < order.index("MulBackward0") < order.index("LogBackward0")
        )

    def test_a_gradient_that_parts_alone_is_found_from_the_loss_on(self):
        def hooked(factor):
            x = torch.tensor([0.3, 0.4], requires_grad=True)
            h = x.sin()
            h.register_hook(lambda grad: grad * factor)
            return h.exp().sum()

        found = compare_numerics(hooked(1.0), hooked(1.01))
        assert (found.first.op, found.first.leaves) == ("SinBackward0", "gradient")

    @pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
    def test_the_scale_of_a_loss_does_not_matter_to_gradients(self, scale):
        def step(wrong):
            x = torch.tensor([0.3, 0.4], dtype=DOUBLE, requires_grad=True)
            h = x.sin()
            h.register_hook(lambda grad: grad * (1.01 if wrong else 1.0))
            return (h.exp().sum() * scale).clone()

        found = compare_numerics(step(False), step(True))
        assert found.first.leaves == "gradient"
        assert compare_numerics(step(False), step(False)).first is None

    def test_tolerances_of_ones_own(self):
        a, b = block(DOUBLE)[1], block(HALF)[1]
        assert compare_numerics(a, b, rtol=10.0, atol=10.0).first is None
        assert compare_numerics(a, b, rtol=0.0, atol=0.0).first is not None
        with pytest.raises(TypeError, match="Give both, or neither"):
            compare_numerics(a, b, rtol=0.1)

    @pytest.mark.parametrize("wrong", ["x", -1.0, math.nan, 1j, [1.0]])
    @pytest.mark.parametrize("which", ["rtol", "atol"])
    def test_no_tolerance_is_one_that_nothing_can_leave(self, which, wrong):
        a, b = block(DOUBLE)[1], block(HALF)[1]
        given = {"rtol": 0.0, "atol": 0.0, which: wrong}
        with pytest.raises(TypeError, match=f"given {which}="):
            compare_numerics(a, b, **given)

    def test_nan_is_where_it_is_born(self):
        def step(bad):
            x = torch.tensor([1.0, 4.0], requires_grad=True)
            h = torch.sqrt(x * torch.tensor([1.0, -1.0 if bad else 1.0]))
            return (h.exp() * 2).sum()

        found = compare_numerics(step(False), step(True))
        assert (found.first.op, found.first.leaves) == ("SqrtBackward0", "value")
        by_op = {row.op: row for row in found.rows}
        assert by_op["SqrtBackward0"].value_error == math.inf
        same = compare_numerics(step(True), step(True))
        assert same.first is None

    def test_a_graph_with_itself(self):
        loss = block(DOUBLE)[1]
        found = compare_numerics(loss, loss)
        assert all(row.value_error in (0, None) and row.grad_error == 0 for row in found.rows)
        assert found.notes == [note for note in found.notes if "could not be aligned" not in note]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_program_twice_is_the_same(name):
    runs = []
    for _ in range(2):
        torch.manual_seed(0)
        runs.append(outputs_of(name))
    found = compare_numerics(*runs, gradient=[torch.ones_like(each) for each in runs[0]])
    assert found.first is None
    assert found.only_a == found.only_b == []
    for row in found.rows:
        assert {row.value_error, row.grad_error} <= {0, None}
    found.widget.close()


class TestWhatIsGiven:
    def test_nothing_is_changed(self):
        (net, a), b = block(DOUBLE), block(SINGLE)[1]
        net[0].weight.grad = held = torch.ones_like(net[0].weight)
        before, state = held.clone(), torch.get_rng_state()
        compare_numerics(a, b)
        assert net[0].weight.grad is held
        assert torch.equal(held, before)
        assert net[3].weight.grad is None
        assert torch.equal(torch.get_rng_state(), state)
        a.backward()  # nothing was freed

    def test_recordings_widgets_and_files_say_the_same(self, tmp_path):
        a, b = block(DOUBLE)[1], block(HALF)[1]
        expected = compare_numerics(a, b)
        widget = GraphWidget(b)
        widget.backward()
        path = save(widget, tmp_path / "b.gw")
        for found in (compare_numerics(record(a), widget), compare_numerics(a, path)):
            assert [row.op for row in found.rows] == [row.op for row in expected.rows]
            for one, other in zip(found.rows, expected.rows, strict=True):
                assert one.grad_error == pytest.approx(other.grad_error)
        widget.close()

    def test_parameters_that_were_updated_since_are_not_what_was_computed_with(self):
        losses, nets = [], []
        for dtype in (DOUBLE, SINGLE):
            net, loss = block(dtype)
            losses.append(record(loss, names=net))
            nets.append(net)
        torch.optim.SGD(nets[1].parameters(), lr=1.0).step()
        found = compare_numerics(*losses)
        assert found.first is None
        errors = {row.label: row.value_error for row in found.rows}
        assert errors["3.weight"] is None  # of others nothing tells
        assert any(error is not None for error in errors.values())

    def test_files_of_two_machines(self, tmp_path):
        paths = [save(record(block(each)[1]), tmp_path / f"{each}.gw") for each in (DOUBLE, HALF)]
        found = compare_numerics(*paths)
        live = compare_numerics(*(block(each)[1] for each in (DOUBLE, HALF)))
        assert found.first.nodes == live.first.nodes
        assert compare_numerics(paths[0], str(paths[0])).first is None

    def test_a_file_without_a_pass(self, tmp_path):
        path = save(block(DOUBLE)[1], tmp_path / "a.gw")
        found = compare_numerics(path, block(DOUBLE)[1])
        assert "No backward pass is recorded in a, so no gradient is compared." in found.notes
        assert all(row.grad_error is None for row in found.rows)

    def test_a_budget_that_is_spent_leaves_norms(self):
        torch.manual_seed(0)
        w = torch.randn(100, 100, requires_grad=True)
        losses = [(w @ w).tanh().sum() for _ in range(2)]
        runs = [record(each, max_bytes=0) for each in losses]
        found = compare_numerics(*runs)
        assert "only the norms could be compared" in str(found)
        assert {row.compared for row in found.rows} >= {"norm"}

    def test_another_structure_is_told(self):
        x = torch.linspace(0, 1, 4, requires_grad=True)
        found = compare_numerics(x.exp().sum(), (x.exp() + 1).sum())
        assert found.only_b
        op = capture((x.exp() + 1).sum()).nodes[found.only_b[0]]["op"]
        assert f"1 node of b could not be aligned: {op}." in found.notes

    def test_an_output_of_several_numbers(self):
        def step(dtype):
            x = torch.linspace(0, 1, 4, requires_grad=True, dtype=dtype)
            return x.exp()

        found = compare_numerics(step(DOUBLE), step(SINGLE), gradient=torch.arange(4.0))
        assert found.first is None
        assert all(row.grad_error is not None for row in found.rows)
        with pytest.raises(ValueError, match="gradient"):
            compare_numerics(step(DOUBLE), step(SINGLE))

    def test_bad_input(self, tmp_path):
        loss = block(DOUBLE)[1]
        with pytest.raises(TypeError, match="compare_numerics"):
            compare_numerics(loss, 3)
        with pytest.raises(TypeError, match="static graph"):
            compare_numerics(loss, torch.fx.symbolic_trace(nn.Linear(2, 2)))
        with pytest.raises(OSError, match="none"):
            compare_numerics(loss, tmp_path / "none.gw")
        loss.backward()
        with pytest.raises(RuntimeError, match="freed the tensors saved for it"):
            compare_numerics(loss, block(DOUBLE)[1])


class TestWidget:
    def test_has_the_errors_at_the_places_of_the_nodes(self):
        right, wrong = block(DOUBLE)[1], block(HALF)[1]
        found = compare_numerics(right, wrong)
        widget = found.widget
        assert [pane["label"] for pane in widget.panes] == ["a: right", "b: wrong"]
        told = {each["place"]: each for each in widget.errors["nodes"]}
        for row in found.rows:
            for side, node in enumerate(row.nodes):
                place = next(i for i, of in enumerate(widget.members) if of[side] == node)
                assert told[place]["grad"] == row.grad_error
                assert told[place]["leaves"] == row.leaves
        assert widget.errors["sentence"] == str(found)
        assert widget.members[widget.selected][0] == found.first.nodes[0]
        widget.close()

    def test_is_what_a_notebook_shows(self):
        found = compare_numerics(block(DOUBLE)[1], block(HALF)[1])
        shown = found._repr_mimebundle_()
        assert "application/vnd.jupyter.widget-view+json" in (
            shown[0] if isinstance(shown, tuple) else shown
        )
        found.widget.close()

    def test_of_a_widget_it_leaves_that_alone(self):
        loss = block(HALF)[1]
        widget = GraphWidget(loss)
        widget.backward()
        compared = compare_numerics(block(DOUBLE)[1], widget).widget
        compared.backward()
        compared.close()
        loss.backward()
        assert widget.state["runs"] >= 2
        widget.close()

    def test_of_files_and_of_errors_that_are_infinite(self, tmp_path):
        def step(bad):
            x = torch.tensor([1.0, 4.0], requires_grad=True)
            return torch.sqrt(x - (2.0 if bad else 0.0)).sum()

        paths = [save(record(step(bad)), tmp_path / f"{bad}.gw") for bad in (False, True)]
        widget = compare_numerics(*paths).widget
        assert "inf" in [each["value"] for each in widget.errors["nodes"]]
        assert [pane["label"] for pane in widget.panes] == ["a: False.gw", "b: True.gw"]
        widget.close()


@pytest.mark.parametrize("length", [1, 1_000, pytest.param(10_000, marks=pytest.mark.full)])
def test_long_graphs(length):
    def chain(factor):
        x = torch.tensor([0.5, 0.25], requires_grad=True)
        h = x
        for i in range(length):
            h = h * (factor if i == length // 2 else 1.0001)
        return h.sum()

    found = compare_numerics(chain(1.0001), chain(1.01))
    assert found.first.leaves == "value"
    assert found.first.value_error == pytest.approx(1.01 / 1.0001 - 1, rel=1e-3)
    assert len(found.rows) == length + 2


@pytest.mark.parametrize(
    ("steps", "watched"),
    [
        (220, True),
        *(
            pytest.param(*more, marks=pytest.mark.full)
            for more in ((220, False), (400, False), (400, True))
        ),
    ],
)
def test_gradients_that_underflow_are_none_that_part(steps, watched):
    """A number too small for all digits of float32 counts as no error."""

    def loss(dtype):
        with watch() if watched else contextlib.nullcontext():
            y = torch.linspace(0.1, 0.9, 4, dtype=dtype, requires_grad=True)
            for _ in range(steps):
                y = 0.5 * (y.sin() * 0.9) + 0.1
            return y.sum()

    found = compare_numerics(loss(DOUBLE), loss(SINGLE))
    assert found.first is None
    assert "inf" not in str(found)


def test_a_hook_that_compares_is_refused():
    w = torch.tensor(2.0, requires_grad=True)
    loss = (w * 3).sin()
    said = []

    def hook(_):
        assert not said, "the hook runs again within itself"
        with pytest.raises(RuntimeError, match="by a hook while a backward pass runs") as error:
            compare_numerics(loss, loss)
        said.append(error)

    w.register_hook(hook)
    loss.backward(retain_graph=True)
    assert said
