"""Edits in the widget: the numbers are those of `what_if`, and what fails is a sentence."""

from __future__ import annotations

import json
import random
import weakref
from contextlib import closing
from typing import Any

import pytest
import torch

from gradwalk import GraphWidget, load, record, save, what_if
from gradwalk.features.experiments.contributions import shares


def block() -> dict[str, Any]:
    w0, w1, w2 = (torch.tensor(v, requires_grad=True) for v in (2.0, 0.5, 0.5))
    h = w0 * 0.5
    r = torch.tanh(w1 * h)
    out = h + w2 * r
    return {"w0": w0, "w1": w1, "w2": w2, "h": h, "r": r, "out": out, "loss": (out - 2) ** 2}


def test_edits_are_what_if():
    names = block()
    loss = names["loss"]
    widget = GraphWidget(loss, names=names)
    assert widget.edits == []
    assert widget.effect is None
    h, r, out, w0, w1, w2 = (names[n] for n in ("h", "r", "out", "w0", "w1", "w2"))
    assert all(each is not None for each in (h, r, out, w0, w1, w2))
    tries: list[tuple[list[Any], dict[str, Any]]] = [
        ([{"kind": "cut", "edge": (2, 0)}], {"cut": [(2, 0)]}),
        ([{"kind": "scale", "edge": "h", "value": 0.5}], {"scale": {"h": 0.5}}),
        (
            [
                {"kind": "cut", "edge": (4, 1)},
                {"kind": "replace", "edge": (2, 0), "value": 3},
            ],
            {"cut": [(4, 1)], "replace": {(2, 0): torch.tensor(3.0)}},
        ),
    ]
    for edits, asked in tries:
        widget.edits = edits
        expected = what_if(loss, **asked)
        model = widget.effect
        assert model is not None
        assert model["failed"] is None
        assert model["ran"] == expected.ran
        assert model["leaf_count"] == 3
        assert [each["node"] for each in model["nodes"]] == model["reached"]
        for leaf in model["leaves"]:
            before, after = expected.before[leaf["name"]], expected.after[leaf["name"]]
            assert leaf["before"]["values"] == before.item()
            assert (leaf["after"] and leaf["after"]["values"]) == (
                None if after is None else after.item()
            )
            same = after is not None and torch.equal(before, after)
            assert (leaf["difference"] is None) == same
        json.dumps(model)
        assert all(w.grad is None for w in (w0, w1, w2))
    first = widget.effect["edits"]
    assert [each["label"] for each in first] == ["MulBackward0 4 → r", "out → h"]
    assert first[1]["was"]["values"] == pytest.approx(-1.5379, abs=1e-4)
    assert first[1]["now"]["values"] == 3
    widget.edits = widget.edits[:-1]
    assert len(widget.effect["edits"]) == 1
    widget.edits = []
    assert widget.effect is None
    widget.step(2)
    widget.edits = [{"kind": "cut", "edge": (2, 0)}]
    assert widget.cursor == 2
    widget.close()
    assert widget.effect is None
    assert widget.edits == []


EDITS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"kind": "cut", "edge": (2, 0)}, {"cut": [(2, 0)]}),
    ({"kind": "scale", "edge": (2, 0), "value": 0.5}, {"scale": {(2, 0): 0.5}}),
    ({"kind": "scale", "edge": "r", "value": -2}, {"scale": {"r": -2}}),
    ({"kind": "replace", "edge": (4, 1), "value": 3}, {"replace": {(4, 1): torch.tensor(3.0)}}),
    ({"kind": "cut", "edge": "w1"}, {"cut": ["w1"]}),
]


def joined(asked: list[dict[str, Any]]) -> dict[str, Any]:
    """The arguments of `what_if` for several edits."""
    found: dict[str, Any] = {"cut": [], "scale": {}, "replace": {}}
    for each in asked:
        for kind, value in each.items():
            found[kind] = found[kind] + value if kind == "cut" else found[kind] | value
    return found


@pytest.mark.parametrize("seed", range(12))
def test_what_is_on_adds_up_and_each_name_is_compared_alone(seed: int):
    draw = random.Random(seed)
    names = block()
    chosen = [
        (edit, asked, draw.choice([None, "A", "B", "both of it"]), draw.random() < 0.4)
        for edit, asked in draw.sample(EDITS, draw.randint(1, len(EDITS)))
        if not (edit["edge"] == (2, 0) and edit["kind"] == "scale")
    ]
    with closing(GraphWidget(names["loss"], names=names)) as widget:
        widget.edits = [edit | {"name": name, "off": off} for edit, _, name, off in chosen]
        model = widget.effect
        assert model is not None or not chosen
        if model is None:
            return
        assert not model["failed"]
        loss, w0, w1, w2, r = (names[each] for each in ("loss", "w0", "w1", "w2", "r"))
        assert all(each.requires_grad for each in (w0, w1, w2, r))  # named by these variables
        on = what_if(loss, **joined([asked for _, asked, _, off in chosen if not off]))
        sets = list(dict.fromkeys(name for _, _, name, _ in chosen if name))
        assert model["names"] == (sets if len(sets) > 1 else [])
        alone = []
        for each in model["names"]:
            asked_alone = joined([asked for _, asked, name, _ in chosen if name == each])
            alone.append(what_if(loss, **asked_alone))
        for leaf in model["leaves"]:
            for shown, truth in [
                (leaf["after"], on),
                *zip([each["after"] for each in leaf["named"]], alone, strict=True),
            ]:
                after = truth.after[leaf["name"]]
                assert (shown and shown["values"]) == (None if after is None else after.item())
            for each, truth in zip(leaf["named"], alone, strict=True):
                before, after = truth.before[leaf["name"]], truth.after[leaf["name"]]
                assert each["changed"] == (after is None or not torch.equal(before, after))
        for (_, _, _, off), told in zip(chosen, model["edits"], strict=True):
            assert told["label"]
            assert not off or told["was"] is told["now"] is None


def test_edits_that_are_off_change_nothing_and_only_so_many_names_are_compared():
    names = block()
    with closing(GraphWidget(names["loss"], names=names)) as widget:
        widget.edits = [{"kind": "cut", "edge": (2, 0), "off": True}]
        assert widget.edits[0]["off"]
        assert widget.effect["reached"] == []
        assert all(leaf["difference"] is None for leaf in widget.effect["leaves"])
        assert widget.effect["code"] == ""
        widget.edits = [
            {"kind": "scale", "edge": (2, 0), "value": i, "name": f" {i} ", "off": True}
            for i in range(8)
        ]
        assert widget.effect["names"] == list("012345")
        assert widget.effect["notes"] == ["Only the first 6 of 8 names are compared."]
        w0 = next(leaf for leaf in widget.effect["leaves"] if leaf["name"] == "w0")
        found = [each["after"]["values"] for each in w0["named"]]
        leaf = names["w0"]
        truth = [what_if(names["loss"], scale={(2, 0): i}, inputs=[leaf]) for i in range(6)]
        assert found == [each.after["leaf"].item() for each in truth]


def test_nodes_below_an_edit_have_the_gradients_of_the_changed_program():
    names = block()
    widget = GraphWidget(names["loss"], names=names)
    ids = {node["name"]: node["id"] for node in widget.model["nodes"]}
    widget.edits = [{"kind": "scale", "edge": "out", "value": 0.5}]
    changed = block()
    changed["out"].register_hook(lambda grad: grad * 0.5)
    kept = [changed[name] for name in ("h", "r", "w0", "w1", "w2")]
    for tensor in kept:
        tensor.retain_grad()
    changed["loss"].backward()
    told = {each["node"]: each["after"] for each in widget.effect["nodes"]}
    for name in ("h", "r", "w0", "w1", "w2"):
        assert told[ids[name]]["values"] == changed[name].grad.item()
    widget.edits = [{"kind": "cut", "edge": "out"}]
    assert {each["after"] for each in widget.effect["nodes"]} == {None}


@pytest.mark.parametrize("shape", [(3,), (2, 2), (2, 1, 2), (1,), ()])
def test_as_many_numbers_as_it_has_replace_a_gradient_of_any_shape(shape: tuple[int, ...]):
    w = torch.ones(shape, requires_grad=True)
    out = (w * 2).sum()
    numbers = [float(i) for i in range(w.numel())]
    with closing(GraphWidget(out, names={"w": w})) as widget:
        for value in (numbers, torch.tensor(numbers).reshape(shape).tolist()):
            widget.edits = [{"kind": "replace", "edge": "w", "value": value}]
            assert widget.effect["failed"] is None
            (leaf,) = widget.effect["leaves"]
            wanted = torch.tensor(numbers).reshape(shape)
            assert torch.equal(torch.tensor(leaf["after"]["values"]), wanted)
        widget.edits = [{"kind": "replace", "edge": "w", "value": [*numbers, 1.0, 2.0]}]
        assert "one number for each" in str(widget.effect["failed"])


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        (3, TypeError, "Give a list of dicts"),
        ([3], TypeError, "Give a list of dicts such as"),
        ([{"kind": "cut"}], TypeError, "Give a list of dicts such as"),
        ([{"kind": "sew", "edge": (0, 0)}], ValueError, "'cut', 'scale', 'replace'"),
        ([{"kind": "cut", "edge": (0, 0), "name": 3}], TypeError, "edits was given the name 3"),
        ([{"kind": "cut", "edge": (0, 0), "off": 1}], TypeError, "off=1"),
        ([{"kind": "cut", "edge": (0, 0), "of": True}], ValueError, "edit with 'of'"),
    ],
)
def test_edits_that_are_none(given: Any, kind: type[Exception], said: str):
    widget = GraphWidget(block()["loss"])
    with pytest.raises(kind, match=said):
        widget.edits = given
    assert widget.edits == []


def test_what_cannot_be_is_a_sentence(tmp_path: Any):
    loss = block()["loss"]
    widget = GraphWidget(loss)
    widget.edits = [{"kind": "cut", "edge": (99, 0)}]
    assert "nodes 0 to 9 only" in widget.effect["failed"]
    widget.edits = [{"kind": "scale", "edge": (2, 0), "value": "a"}]
    assert "Give a number" in widget.effect["failed"]
    save(loss, tmp_path / "run.gw")
    opened = load(tmp_path / "run.gw")
    opened.edits = [{"kind": "cut", "edge": (2, 0)}]
    assert "comes from a file" in opened.effect["failed"]
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    static = GraphWidget(program)
    static.edits = [{"kind": "cut", "edge": (0, 0)}]
    static.selected = 0
    assert "a static graph" in static.effect["failed"]
    assert static._shares == []


def test_shares_are_of_the_pass_that_is_shown():
    names = block()
    widget = GraphWidget(names["loss"], names=names)
    h = next(i for i, n in widget.to_networkx().nodes(data="name") if n == "h")
    widget.selected = h
    assert widget._shares == []
    widget.backward()
    found = widget._shares
    assert [each["label"] for each in found] == ["out", "MulBackward0"]
    assert found[0]["share"] == pytest.approx(0.8357, abs=1e-4)
    assert sum(each["share"] for each in found) == pytest.approx(1)
    widget.selected = 0
    assert widget._shares == []


def test_no_shares_where_a_hook_changed_the_sum():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.register_hook(lambda grad: grad * 10)
    recording = record((y + y.exp()).sum())
    assert (
        shares(recording._pass, 2) == []
        or abs(sum(each["share"] for each in shares(recording._pass, 2)) - 1) < 1e-3
    )


class TestAnotherGraphInThePicture:
    """What `GraphWidget.update` does to edits."""

    def shown(self, number: float) -> torch.Tensor:
        return (self.w * number - 1) ** 2

    @pytest.fixture(autouse=True)
    def leaf(self):
        self.w = torch.tensor(2.0, requires_grad=True)

    def test_of_the_same_structure_keeps_them(self):
        with closing(GraphWidget(self.shown(3.0), names={"w": self.w})) as widget:
            widget.edits = [{"kind": "scale", "edge": "w", "value": 10}]
            after = self.shown(4.0)
            widget.update(after, names={"w": self.w})
            (plain,) = torch.autograd.grad(after, self.w, retain_graph=True)
            (changed,) = (each for each in widget.effect["leaves"] if each["name"] == "w")
            assert changed["before"]["values"] == plain.item()
            assert changed["after"]["values"] == 10 * plain.item()

    def test_of_another_structure_has_none(self):
        with closing(GraphWidget(self.shown(3.0), names={"w": self.w})) as widget:
            widget.edits = [{"kind": "cut", "edge": [1, 0], "value": None}]
            widget.update(self.shown(4.0).sin(), names={"w": self.w})
            assert widget.effect is None
            assert widget.edits == []

    def test_lets_go_of_the_graph_before(self):
        before = self.shown(3.0)
        gone = weakref.ref(before)
        with closing(GraphWidget(before, names={"w": self.w})) as widget:
            widget.edits = [{"kind": "cut", "edge": "w", "value": None}]
            assert widget.effect["failed"] is None
            widget.update(self.shown(4.0), names={"w": self.w})
            del before
            assert gone() is None


@pytest.mark.parametrize("edge", [3, None, 2.5, torch.tensor(1.0), {1: 2}])
def test_an_edge_of_another_kind_is_refused_in_a_sentence(edge: Any):
    with (
        closing(GraphWidget(block()["loss"])) as widget,
        pytest.raises(TypeError, match="edits was given the edge"),
    ):
        widget.edits = [{"kind": "cut", "edge": edge}]


@pytest.mark.parametrize("value", ["q", None, print, {}, [[1], [2, 3]], 10**400])
def test_what_are_no_numbers_replace_nothing(value: Any):
    with closing(GraphWidget(block()["loss"])) as widget:
        widget.edits = [{"kind": "replace", "edge": (2, 0), "value": value}]
        assert widget.effect is not None
        assert "Give a number, or a list" in str(widget.effect["failed"])


def test_a_leaf_that_is_nan_before_and_after_is_not_listed_as_changed():
    w, v = (torch.tensor(0.0, requires_grad=True) for _ in range(2))
    with closing(GraphWidget(w.sqrt() * 0 + v, names={"w": w, "v": v})) as widget:
        widget.edits = [{"kind": "scale", "edge": "w", "value": 2}]
        assert widget.effect is not None
        assert all(leaf["difference"] is None for leaf in widget.effect["leaves"])
