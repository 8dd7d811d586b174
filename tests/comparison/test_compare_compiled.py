"""`compare` of eager and compiled graphs: what became of each operation inside compiled code."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")


def compared(comparing, **asked):
    torch._dynamo.reset()
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2), torch.nn.Flatten(0)
    )
    x = torch.randn(5, 4)

    def step(run):
        h = run(x)
        return (h + h * h).sum()

    compiled = torch.compile(net, backend="aot_eager")
    return net, comparing({"eager": step(net), "compiled": step(compiled)}, names=net, **asked)


def test_is_closed_unless_asked_for(comparing):
    _, widget = compared(comparing)
    assert widget.compiled == []
    kinds = {node["kind"] for pane in widget.panes for node in pane["graph"]["nodes"]}
    assert "call" not in kinds


@pytest.mark.parametrize("is_first", [True, False])
def test_says_what_became_of_each_operation(comparing, is_first):
    def either(graphs, **asked):
        return comparing(dict(reversed(graphs.items())) if is_first else graphs, **asked)

    _, widget = compared(either, opened=True)
    (told,) = widget.compiled
    pane = 0 if is_first else 1
    calls = {
        node["id"]: node for node in widget.panes[pane]["graph"]["nodes"] if node["kind"] == "call"
    }
    seen = []
    for each in told["operations"]:
        ids = [widget.members[place][pane] for place in (*each["calls"], *each["again"])]
        assert set(ids) <= calls.keys()
        assert [calls[i]["recomputed"] for i in ids] == (
            [False] * len(each["calls"]) + [True] * len(each["again"])
        )
        seen += ids
        # The operation lies where the first of its calls does that works on the gradient.
        assert not each["calls"] or each["place"] in each["calls"]
        assert each["how"] == ("one" if len(each["calls"]) == 1 else "several")
    assert sorted(seen) == sorted(calls)
    ops = [(each["label"], each["where"], each["sentence"]) for each in told["operations"]]
    assert ops[2] == ("GeluBackward0", "1", "gelu_backward")
    assert ops[-1][2] == "view"
    assert told["sentence"].startswith("Inside compiled: of 6 operations 4 as one call, 2 as ")
    assert "before the backend fuses calls" in told["sentence"]
    names = [row["name"] for row in widget.table["rows"]]
    assert names.count("2.weight") == 1  # what compiled code saved is no leaf


def test_looking_changes_no_gradient(comparing):
    net, widget = compared(comparing, opened=True)
    widget.backward()
    expected = {name: p.grad.clone() for name, p in net.named_parameters()}
    for row in widget.table["rows"]:
        if row["name"] in expected:
            assert row["cells"][0]["now"] == row["cells"][1]["now"]
    widget.selected = widget.compiled[0]["operations"][2]["place"]
    assert [each["op"] for each in widget.details] == [
        "GeluBackward0",
        "aten.gelu_backward.default",
    ]


def test_what_cannot_be_opened_is_a_sentence(comparing, monkeypatch):
    monkeypatch.setattr("gradwalk.torch_api.compiled._program", lambda _: 1 / 0)
    with pytest.raises(ValueError, match="cannot be read in torch"):
        compared(comparing, opened=True)
