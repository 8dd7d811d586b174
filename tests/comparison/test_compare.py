"""`compare`: what is matched, what the table says, and stepping through several graphs at once."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradwalk import GraphWidget, compare
from gradwalk.comparison.linked_passes import cursors, merge_steps


def leaves():
    """x, w and b, as new tensors."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    w = torch.tensor([4.0, 3.0], requires_grad=True)
    b = torch.tensor([0.5, -1.0], requires_grad=True)
    return x, w, b


def linear(x, w, b):
    return (w * x + b).sum()


def by_name(widget):
    """Leaf -> its cells in the table."""
    return {row["name"]: row["cells"] for row in widget.table["rows"]}


def as_values(grad):
    return None if grad is None else grad.tolist()


def shown(cell, when):
    return None if cell[when] is None else cell[when]["values"]


class TestDifference:
    def test_requires_grad_false_leaves_out_one_leaf(self, comparing):
        x, w, b = leaves()
        frozen = x.detach().clone()
        names = {"x": x, "w": w, "b": b}
        widget = comparing({"x": linear(x, w, b), "frozen": linear(frozen, w, b)}, names=names)
        found = widget.model
        only = [found["nodes"][i]["name"] for i in found["comparisons"]["frozen"]["only_left"]]
        assert only == ["x"]
        pairs = found["comparisons"]["frozen"]["pairs"]
        assert all(found["nodes"][left]["nodes"]["frozen"] == right for left, right in pairs)
        ops = [found["nodes"][left]["op"] for left, _ in pairs]
        assert sorted(ops) == [
            "AccumulateGrad",
            "AccumulateGrad",
            "AddBackward0",
            "MulBackward0",
            "SumBackward0",
        ]

    def test_detach_leaves_out_the_same_leaf(self, comparing):
        x, w, b = leaves()
        widget = comparing(
            {"x": linear(x, w, b), "cut": linear(x.detach(), w, b)},
            names={"x": x, "w": w, "b": b},
        )
        comparison = widget.model["comparisons"]["cut"]
        nodes = widget.model["nodes"]
        assert [nodes[i]["name"] for i in comparison["only_left"]] == ["x"]
        graph = widget.panes[1]["graph"]
        kinds = {graph["nodes"][i]["kind"] for i in comparison["only_right"]}
        assert kinds <= {"constant", "cut", "outside"}  # no autograd node is only here

    def test_clone_is_one_operation_more(self, comparing):
        x, w, b = leaves()
        widget = comparing(
            {"x": linear(x, w, b), "clone": linear(x.clone(), w, b)},
            names={"x": x, "w": w, "b": b},
        )
        comparison = widget.model["comparisons"]["clone"]
        assert comparison["only_left"] == []
        graph = widget.panes[1]["graph"]
        assert [graph["nodes"][i]["op"] for i in comparison["only_right"]] == ["CloneBackward0"]
        assert len(comparison["pairs"]) == 6

    def test_members_are_the_nodes_of_the_united_graph(self, comparing):
        x, w, b = leaves()
        names = {"x": x, "w": w, "b": b}
        widget = comparing([linear(x, w, b), linear(x.clone(), w, b)], names=names)
        for place, node in zip(widget.members, widget.model["nodes"], strict=True):
            assert place == list(node["nodes"].values())
        assert repr(widget).endswith("6 nodes in common, 1 only in some)")


class TestTable:
    def test_before_and_after_equal_torch_of_each_graph_alone(self, comparing):
        x, w, b = leaves()
        w.grad = torch.tensor([10.0, 20.0])
        graphs = {"all": linear(x, w, b), "cut": linear(x.detach(), w, b)}
        widget = comparing(graphs, names={"x": x, "w": w, "b": b})
        widget.backward()
        alone = []
        for cut in (False, True):
            x2, w2, b2 = leaves()
            w2.grad = torch.tensor([10.0, 20.0])
            linear(x2.detach() if cut else x2, w2, b2).backward()
            alone.append({"x": x2, "w": w2, "b": b2})
        table = by_name(widget)
        for name in "xwb":
            for cell, expected in zip(table[name], alone, strict=True):
                if cell["node"] is not None:
                    assert shown(cell, "now") == as_values(expected[name].grad), name
                    assert shown(cell, "before") == ([10.0, 20.0] if name == "w" else None)
        assert x.grad.tolist() == [4.0, 3.0]
        assert w.grad.tolist() == [11.0, 22.0]  # what the first graph gives

    def test_flags_are_those_of_the_tensors(self, comparing):
        x, w, b = leaves()
        widget = comparing(
            {"all": linear(x, w, b), "cut": linear(x.detach(), w, b)}, names={"w": w}
        )
        for row in widget.table["rows"]:
            for cell in row["cells"]:
                assert cell["is_leaf"] in (True, None)
                assert (cell["node"] is None) == (cell["is_leaf"] is None)
        assert by_name(widget)["w"][0]["requires_grad"] is True

    def test_follows_backward_of_the_users_own(self, comparing):
        x, w, b = leaves()
        first, second = linear(x, w, b), linear(x, w, b.clone())
        widget = comparing({"a": first, "b": second}, names={"x": x, "w": w, "b": b})
        first.backward()
        table = by_name(widget)
        assert shown(table["w"][0], "before") is None
        assert shown(table["w"][0], "now") == w.grad.tolist()
        w.grad.zero_()
        second.backward()
        table = by_name(widget)
        assert shown(table["w"][1], "before") == [0.0, 0.0]
        assert shown(table["w"][1], "now") == w.grad.tolist() == [1.0, 2.0]
        w.grad = None
        assert shown(by_name(widget)["w"][1], "now") is None

    def test_every_step_equals_torch(self, comparing):
        x, w, b = leaves()
        y, v, c = leaves()
        widget = comparing(
            {"one": linear(x, w, b), "two": linear(y, v, c) * 3},
            names={"one": {"x": x, "w": w, "b": b}, "two": {"x": y, "w": v, "b": c}},
        )
        widget.backward()
        for cursor in [*range(len(widget.steps), -1, -1), len(widget.steps)]:
            widget.cursor = cursor
            table = by_name(widget)
            for name, tensors in {"x": (x, y), "w": (w, v), "b": (b, c)}.items():
                assert [shown(cell, "now") for cell in table[name]] == [
                    as_values(tensor.grad) for tensor in tensors
                ]

    def test_large_gradients_are_told_by_their_norm(self, comparing):
        w = torch.randn(50, requires_grad=True)
        widget = comparing({"a": (w * w).sum(), "b": (w * 2).sum()}, names={"w": w})
        widget.backward()
        first, second = by_name(widget)["w"]
        assert first["now"]["values"] is None
        assert first["now"]["norm"] == pytest.approx((2 * w).norm().item())
        assert second["now"]["norm"] == pytest.approx(torch.full((50,), 2.0).norm().item())

    def test_of_very_many_leaves_those_that_differ_come_in(self, comparing):
        many = [torch.ones(1, requires_grad=True) for _ in range(150)]
        extra = torch.ones(1, requires_grad=True)
        names = {f"p{i}": p for i, p in enumerate(many)} | {"extra": extra}
        widget = comparing({"a": sum(many), "b": sum([*many, extra])}, names=names)
        assert len(widget.table["rows"]) == 100
        assert widget.table["total"] == 151
        assert "extra" in by_name(widget)


class TestStepping:
    def test_one_step_moves_every_graph(self, comparing):
        x, w, b = leaves()
        widget = comparing(
            {"all": linear(x, w, b), "cut": linear(x.detach(), w, b)}, names={"x": x}
        )
        widget.step()
        assert widget.cursor == 1
        assert widget._steps[0]["passes"] == [0, 1]
        assert x.grad is None
        widget.step(100)
        assert widget.cursor == len(widget.steps)
        assert x.grad.tolist() == [4.0, 3.0]
        widget.step_back()
        widget.reset()
        assert (widget.cursor, x.grad, w.grad, b.grad) == (0, None, None, None)
        widget.run_to("x")
        assert x.grad.tolist() == [4.0, 3.0]

    def test_the_shared_nodes_of_two_graphs_are_run_once_for_each(self, comparing):
        x, w, b = leaves()
        h = w * x + b
        widget = comparing({"sum": h.sum(), "mean": h.mean()}, names={"x": x, "w": w, "b": b})
        widget.backward()
        assert [each["state"]["runs"] for each in widget.passes] == [1, 1]
        sums, means = by_name(widget)["w"]
        assert shown(sums, "now") == [1.0, 2.0]
        assert shown(means, "now") == [0.5, 1.0]
        assert "w" in widget.passes[1]["transport"]["note"]

    def test_a_graph_that_has_not_run_is_run_by_the_first_step(self, comparing):
        x, w, b = leaves()
        y, v, c = leaves()
        first, second = linear(x, w, b), linear(y, v, c)
        widget = comparing({"a": first, "b": second})
        first.backward()
        assert [bool(each["steps"]) for each in widget.passes] == [True, False]
        assert widget.cursor == len(widget.steps)
        widget.step()
        assert [bool(each["steps"]) for each in widget.passes] == [True, True]
        assert y.grad is None
        assert x.grad.tolist() == [4.0, 3.0]  # its backward was only watched, so it is left alone

    def test_an_error_leaves_every_grad_as_it_was(self, comparing):
        class Fails(torch.autograd.Function):
            @staticmethod
            def forward(_, x):
                return x.clone()

            @staticmethod
            def backward(_, __):
                raise RuntimeError("no way back")

        x, w, b = leaves()
        widget = comparing({"fine": linear(x, w, b), "fails": linear(Fails.apply(x), w, b)})
        with pytest.raises(RuntimeError, match="no way back"):
            widget.backward()
        assert (x.grad, w.grad, b.grad, widget.cursor) == (None, None, None, 0)
        assert [each["run"]["ended"] for each in widget.passes] == ["done", "stopped"]

    def test_gradients_per_graph(self, comparing):
        x, w, b = leaves()
        widget = comparing({"a": w * x, "b": w * b}, names={"w": w})
        with pytest.raises(ValueError, match="no one gradient"):
            widget.backward()
        widget.backward({"a": torch.tensor([1.0, 0.0]), "b": torch.tensor([0.0, 1.0])})
        first, second = by_name(widget)["w"]
        assert (shown(first, "now"), shown(second, "now")) == ([1.0, 0.0], [0.0, -1.0])

    def test_the_browser_can_start_it_and_hears_of_errors(self, comparing):
        x, w, b = leaves()
        widget = comparing([linear(x, w, b), linear(x, w, b)])
        widget._on_message(widget, {"kind": "start", "cursor": 2}, [])
        assert widget.cursor == 2
        stuck = comparing([x * w, x * b])
        stuck._on_message(stuck, {"kind": "start", "cursor": 1}, [])
        assert "no one gradient" in stuck._fault

    def test_what_is_wrong_is_said(self, comparing):
        x, w, b = leaves()
        widget = comparing([linear(x, w, b), linear(x, w, b)])
        for wrong, error, words in [
            ("nothing", ValueError, "no nodes are called so"),
            (99, ValueError, "members has places"),
            (1.5, TypeError, "of type float"),
        ]:
            with pytest.raises(error, match=words):
                widget.run_to(wrong)
        with pytest.raises(ValueError, match="no backward pass has been seen"):
            widget.cursor = 1
        with pytest.raises(TypeError, match="cursor was given"):
            widget.cursor = "end"


@given(st.lists(st.permutations(range(8)).map(lambda order: order[:5]), min_size=1, max_size=4))
def test_merging_keeps_every_order_and_meets_as_often_as_two_can(passes):
    merged = merge_steps(passes)
    for number, nodes in enumerate(passes):
        assert [step.node for step in merged if number in step.passes] == nodes
    at = cursors(merged, len(passes))
    assert at[0] == [0] * len(passes)
    assert at[-1] == [5] * len(passes)
    if len(passes) == 2:
        met = sum(len(step.passes) == 2 for step in merged)
        assert met == longest_common(*passes)


def longest_common(one, other):
    """The length of a longest common subsequence, by the textbook's table."""
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            best = max(table[i][j + 1], table[i + 1][j])
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else best
    return table[-1][-1]


class TestInput:
    @pytest.mark.parametrize(
        ("graphs", "error", "words"),
        [
            (lambda h: {"one": h}, ValueError, "given one graph.*GraphWidget"),
            (lambda h: h, ValueError, "given one graph"),
            (lambda _: [], ValueError, "given no graph"),
            (lambda _: {}, ValueError, "given no graph"),
            (lambda h: [h] * 5, ValueError, "given 5 graphs, and no more than 4 fit"),
            (lambda _: 3, TypeError, "of type int. Give a mapping"),
            (lambda _: "ab", TypeError, "of type str. Give a mapping"),
            (lambda h: {1: h, 2: h}, TypeError, "the label 1, of type int"),
            (lambda h: {" ": h, "b": h}, ValueError, "an empty label"),
            (
                lambda h: {"a": h, "b": 3},
                TypeError,
                r"^compare\(\), under 'b', was given the number 3",
            ),
            (
                lambda h: {"a": h, "b": h.detach()},
                ValueError,
                r"^compare\(\), under 'b', was given a tensor .*requires_grad=False",
            ),
            (lambda h: [h, None], TypeError, "given None"),
        ],
    )
    def test_is_refused_in_a_sentence(self, graphs, error, words):
        with pytest.raises(error, match=words):
            compare(graphs(linear(*leaves())))

    def test_a_tensor_as_names_is_refused(self):
        h = linear(*leaves())
        with pytest.raises(TypeError, match=r"compare\(\[a, b\]\)"):
            compare(h, h, names=h)

    def test_graphs_can_be_given_one_by_one(self):
        first, second = linear(*leaves()), linear(*leaves())
        widget = compare(first, second)
        assert [pane["label"] for pane in widget.panes] == ["first", "second"]
        widget.close()

    def test_tensors_in_a_list_are_labelled_with_their_names(self, comparing):
        x, w, b = leaves()
        kept, cut = linear(x, w, b), linear(x.detach(), w, b)
        for tensors, labels in [([kept, cut], ["kept", "cut"]), ([kept] * 2, ["kept", "kept (2)"])]:
            widget = compare(tensors)
            assert [pane["label"] for pane in widget.panes] == labels
            widget.close()
        unnamed = comparing([linear(x, w, b), linear(x, w, b)], names={})
        assert [pane["label"] for pane in unnamed.panes] == ["graph 1", "graph 2"]

    def test_the_same_graph_twice_has_no_difference(self, comparing):
        x, w, b = leaves()
        h = linear(x, w, b)
        widget = comparing({"a": h, "b": h}, names={"x": x})
        assert widget.model["comparisons"]["b"]["only_left"] == []
        assert all(place[0] == place[1] for place in widget.members)
        widget.step(2)
        assert [each["state"]["runs"] for each in widget.passes] == [1, 1]
        assert all(step["passes"] == [0, 1] for step in widget._steps)
        widget.run_to("x")
        assert x.grad.tolist() == [4.0, 3.0]

    def test_markup_in_a_label_stays_as_it_is(self, comparing):
        x, w, b = leaves()
        label = "<img src=x onerror=alert(1)>"
        widget = comparing({label: linear(x, w, b), "b": linear(x, w, b)})
        assert widget.panes[0]["label"] == label

    def test_names_for_each_graph(self, comparing):
        one, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        x = torch.ones(1, 2)
        graphs = {"one": one(x).sum(), "other": other(x).sum()}
        widget = comparing(graphs, names={"one": one, "other": other})
        table = by_name(widget)
        assert all(cell["node"] is not None for name in ("weight", "bias") for cell in table[name])

    def test_leaves_without_names_are_called_by_their_shapes(self, comparing):
        x, w = torch.ones(2, 3), torch.ones(3, 4, requires_grad=True)
        widget = comparing([(x @ w).sum(), (x @ w * w.sum()).sum()], names={})
        names = {row["name"] for row in widget.table["rows"]}
        assert "leaf (3, 4)" in names
        assert not any("AccumulateGrad" in name for name in names)

    def test_graphs_of_very_different_sizes(self, comparing):
        x = torch.tensor(0.5, requires_grad=True)

        def chain(length):
            y = x * 1.0
            for _ in range(length):
                y = y.sin()
            return y

        widget = comparing({"short": chain(8), "long": chain(4_998)}, names={"x": x})
        assert [len(pane["graph"]["nodes"]) for pane in widget.panes] == [10, 5_000]
        common = sum(None not in place for place in widget.members)
        assert common == 10
        widget.backward()
        first, second = by_name(widget)["x"]
        expected = [torch.autograd.grad(chain(n), x)[0].item() for n in (8, 4_998)]
        assert [shown(first, "now"), shown(second, "now")] == expected


class TestClosing:
    def test_frees_the_graphs(self):
        x, w, b = leaves()
        h, k = linear(x, w, b), linear(x.exp(), w, b)
        saved = weakref.ref(k.grad_fn.next_functions[0][0].next_functions[0][0]._saved_other)
        widget = compare({"a": h, "b": k}, names={"x": x})
        widget.backward()
        flowed = weakref.ref(widget._source.sources["b"]._passes.observer.last)
        widget.close()
        widget.close()
        del h, k
        gc.collect()
        assert flowed() is None
        assert saved() is None
        assert "closed" in repr(widget)
        with pytest.raises(ValueError, match="closed"):
            widget.step()

    def test_removes_every_hook(self):
        x, w, b = leaves()
        h, k = linear(x, w, b), linear(x.exp(), w, b)
        widget = compare({"a": h, "b": k})
        observers = [each._passes.observer for each in widget._source.sources.values()]
        widget.close()
        h.backward()
        k.backward()
        assert [each.runs for each in observers] == [0, 0]

    def test_looking_changes_nothing(self, comparing):
        torch.manual_seed(3)
        state = torch.get_rng_state()
        x, w, b = leaves()
        widget = comparing({"a": linear(x, w, b), "b": linear(x.detach(), w, b)})
        widget.selected = 1
        assert widget.details[0]["op"] == "AddBackward0"
        assert widget.table["rows"]
        assert (x.grad, w.grad, b.grad) == (None, None, None)
        assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("count", [1, 250])
@pytest.mark.parametrize("constants", [None, True, False])
def test_constants_are_drawn_as_in_a_widget_of_one_graph(count, constants):
    def chain(factor):
        x = torch.ones(2, requires_grad=True)
        y = x * torch.full((2,), factor)
        for _ in range(count):
            y = y.sin()
        return y.sum()

    one = GraphWidget(chain(2.0), constants=constants)
    both = compare([chain(2.0), chain(3.0)], constants=constants)
    assert (
        both.constants is one.constants is (constants is True or (constants is None and count == 1))
    )
    if constants:
        kinds = [node["kind"] for node in both.panes[0]["graph"]["nodes"]]
        assert kinds == [node["kind"] for node in one.model["nodes"]]
        assert "constant" in kinds
    both.constants = not both.constants
    assert both._fault is None
    one.close()
    both.close()


def test_constants_of_another_kind_are_refused():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match="constants was given 'some'"):
        compare([x * 2, x * 3], constants="some")
