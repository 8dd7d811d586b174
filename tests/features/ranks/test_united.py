"""Graphs of ranks that differ, in one picture; one process plays the ranks in turn."""

from __future__ import annotations

from functools import partial

import networkx as nx
import pytest
import torch
from played_ranks import run
from torch import nn

from gradwalk import GraphWidget, load, save, watch
from gradwalk.matching.match import match
from gradwalk.schema.file_format import SavedGraphModel, SavedNetwork
from gradwalk.schema.graph import GraphModel

pytestmark = pytest.mark.one_python


class Blocks(nn.Module):
    """Which of its blocks run, how often and with what beside them, is given by a word."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleDict({name: nn.Linear(4, 4) for name in "abcdefghijkl"})
        self.head = nn.Linear(4, 2)

    def forward(self, x, word):
        for name in word:
            if name == "+":
                x = x + x.tanh()
            elif name == "*":
                x = x * torch.arange(4.0)
            elif name == "-":
                x = x.detach().requires_grad_()
            else:
                x = x + torch.relu(self.blocks[name](x))
        return self.head(x).square().mean()


def ran(word, rank):
    model = Blocks()
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(rank))
    with watch():
        loss = model(x, word)
    return model, loss


def saved(as_rank, folder, words):
    """Files of ranks, each of which runs the blocks of a word."""
    for rank, word in enumerate(words):
        model, loss = ran(word, rank)
        widget = GraphWidget(loss, names={"net": model})
        widget.backward()
        as_rank(rank, len(words))
        save(widget, folder / f"run-{rank:02}.gw")
        widget.close()
    return str(folder / "run-*.gw")


def gradients(word, rank):
    model, loss = ran(word, rank)
    loss.backward()
    return {f"net.{name}": p.grad for name, p in model.named_parameters() if p.grad is not None}


def drawn(widget):
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(node["id"] for node in widget.model["nodes"])
    graph.add_edges_from((edge["source"], edge["target"]) for edge in widget.model["edges"])
    return graph


def here(widget):
    return {each["node"]: each["here"] for each in widget.model["ranks"]["nodes"]}


WORDS = [
    ["a", "a"],
    ["a", ""],
    ["ab", "ba"],
    ["abc", "ac", "c"],
    ["a", "b", "c", "d"],  # experts
    ["a+", "a*", "a+*", "+a"],
    ["ab", "a-b", "+b", "aab"],
    ["abcd", "dcba", "", "abcd", "a"],
]


@pytest.mark.parametrize("words", WORDS, ids="|".join)
def test_each_rank_is_in_one_picture_with_all_others(as_rank, tmp_path, words):
    pattern = saved(as_rank, tmp_path, words)
    widget = load(pattern)
    assert nx.is_directed_acyclic_graph(drawn(widget))
    places = [(node["kind"], node["op"]) for node in widget.model["nodes"]]
    edges = [(edge["source"], edge["target"]) for edge in widget.model["edges"]]
    names = {node["name"] for node in widget.model["nodes"] if node["kind"] == "leaf"}
    expected = [gradients(word, rank) for rank, word in enumerate(words)]
    assert names - {None} == {name for grads in expected for name in grads}
    for rank, word in enumerate(words):
        widget.rank = rank
        # The same picture, whoever is shown.
        assert [(node["kind"], node["op"]) for node in widget.model["nodes"]] == places
        assert [(edge["source"], edge["target"]) for edge in widget.model["edges"]] == edges
        # Its own graph is what its file alone has.
        alone = load(tmp_path / f"run-{rank:02}.gw")
        own = widget.to_networkx()
        assert own.number_of_edges() == alone.to_networkx().number_of_edges()
        matched = match(alone.to_networkx(), own)
        assert (matched.only_left, matched.only_right) == ([], [])
        autograd = {node for node, data in own.nodes(data=True) if data["kind"] in {"op", "leaf"}}
        assert {node for node, is_here in here(widget).items() if is_here} == autograd
        assert [len(step) for step in widget._steps] == [len(step) for step in alone._steps]
        # Of what it lacks the panel has what another rank got.
        for node in widget.model["nodes"]:
            widget.selected = node["id"]
            found = widget.details
            assert found["failed"] == []
            if node["kind"] not in {"op", "leaf"}:
                continue
            assert ("These values are from rank" in found["about"]) is not here(widget)[node["id"]]
            if node["name"] is None or node["kind"] != "leaf":
                continue
            having = [each for each, grads in enumerate(expected) if node["name"] in grads]
            assert (rank in having) is here(widget)[node["id"]]
            whose = expected[rank if rank in having else having[0]]
            torch.testing.assert_close(
                found["grad_output"][0]["norm"], whose[node["name"]].norm().item()
            )
            assert [row["local"] is not None for row in found["ranks"]] == [
                node["name"] in grads for grads in expected
            ]
        words_of = {each["node"]: each["only"] for each in widget.model["ranks"]["nodes"]}
        for node in widget.model["nodes"]:
            if node["kind"] == "leaf" and node["name"] is not None:
                having = [node["name"] in grads for grads in expected]
                assert (words_of[node["id"]] is None) is all(having)
                if having.count(True) == 1 < len(having):
                    assert words_of[node["id"]] in (
                        f"only on rank {having.index(True)}",
                        f"not on rank {having.index(False)}",
                    )
        for each in widget.model["ranks"]["edges"]:
            edge = widget.model["edges"][each["edge"]]
            has = own.has_edge(edge["source"], edge["target"])
            assert has or not each["here"]
        assert word is not None


def test_what_several_ranks_have_beyond_the_first_is_there_once(as_rank, tmp_path):
    widget = load(saved(as_rank, tmp_path, ["", "ab", "b", "abc"]))
    leaves = [node["name"] for node in widget.model["nodes"] if node["kind"] == "leaf"]
    assert len(leaves) == len(set(leaves)) == 8
    assert widget.model["ranks"]["elsewhere"] == []


def test_of_many_kinds_of_graphs_some_are_drawn_and_the_others_told(as_rank, tmp_path):
    words = "abcdefghijkl"
    widget = load(saved(as_rank, tmp_path, words))
    for rank in (0, 5, 11):
        widget.rank = rank
        leaves = {node["name"] for node in widget.model["nodes"] if node["kind"] == "leaf"}
        assert f"net.blocks.{words[rank]}.weight" in leaves
        elsewhere = widget.model["ranks"]["elsewhere"]
        assert len(elsewhere) == 4
        told = {name for each in elsewhere for name in each["names"]}
        assert told.isdisjoint(leaves)
        assert len(told | leaves) == 26


def test_the_picture_can_be_saved_opened_and_made_a_page(as_rank, tmp_path):
    widget = load(saved(as_rank, tmp_path, ["a", "", "b"]), rank=1)
    again = load(save(widget, tmp_path / "all.gw"))
    assert again.model == widget.model
    assert [*again.to_networkx()] == [*widget.to_networkx()]
    assert str(again) == str(widget)
    for node in range(len(widget.model["nodes"])):
        widget.selected = again.selected = node
        assert again.details == widget.details
    for path in (tmp_path / "out.html", tmp_path / "out.svg"):
        write = widget.to_html if path.suffix == ".html" else partial(widget.to_svg, whole=True)
        write(path)
        assert "net.blocks.a.weight" in path.read_text() or path.suffix == ".html"


@pytest.mark.filterwarnings("ignore:The file of rank 1 holds no backward")
def test_a_rank_without_a_pass_beside_one_with(as_rank, tmp_path):
    pattern = saved(as_rank, tmp_path, ["a", ""])
    model, loss = ran("b", 1)
    as_rank(1)
    (tmp_path / "run-01.gw").unlink()
    save(GraphWidget(loss, names={"net": model}), tmp_path / "run-01.gw")
    for rank in (0, 1):
        widget = load(pattern, rank=rank)
        for node in widget.model["nodes"]:
            widget.selected = node["id"]
            assert widget.details["failed"] == []
        assert sum(not is_here for is_here in here(widget).values()) > 0


def test_a_branch_is_drawn_on_the_rank_that_skipped_it(as_rank, tmp_path):
    widget = load(run(as_rank, tmp_path, second=[0]), rank=1)
    (node,) = [n["id"] for n in widget.model["nodes"] if n["name"] == "model.second.weight"]
    only = {each["node"]: each["only"] for each in widget.model["ranks"]["nodes"]}
    assert only[node] == "only on rank 0"
    (found,) = [f for f in widget.diagnose() if f.kind == "unused-on-rank"]
    assert node in found.nodes


def test_derivatives_that_only_some_ranks_take_are_drawn(as_rank, tmp_path):
    """As with a gradient penalty of every other rank."""
    for rank in range(3):
        torch.manual_seed(0)
        net, x = nn.Linear(3, 1), torch.randn(4, 3, requires_grad=True)
        with watch():
            y = net(x).square().sum()
            loss = y.sin()
            if rank % 2:
                (dx,) = torch.autograd.grad(y, x, create_graph=True)
                loss = loss + dx.square().sum()
        widget = GraphWidget(loss, names={"net": net, "x": x})
        assert len(widget.model["derivatives"]) == rank % 2
        widget.backward()
        as_rank(rank, 3)
        save(widget, tmp_path / f"run-{rank}.gw")
    widget = load(str(tmp_path / "run-*.gw"))
    for rank in (0, 1, 2):
        widget.rank = rank
        (tied,) = widget.model["derivatives"]
        on = {strip["node"]: strip["only"] for strip in widget.model["ranks"]["nodes"]}
        assert on[tied["node"]] == "only on rank 1"
        assert on[tied["of"]] is None
    again = load(save(widget, tmp_path / "again.gw"))
    assert len(again.model["derivatives"]) == 1


WHOLE = {
    "graph": ["modules", "nodes", "edges", "roots", "checkpoints", "derivatives"],
    "network": ["nodes", "edges"],
    "": ["graph", "network", "dtypes", "overlays", "details"],
}
"""Fields that a picture of several ranks gathers from all of their graphs."""
OF_THE_SHOWN = {
    "graph": ["static", "ranks", "plan"],
    "network": ["graph"],
    "": [
        "format",
        "version",
        "watched",
        "memory",
        "findings",
        "direction",
        "constants",
        "selected",
        "cursor",
        "inner",
        "state",
        "steps",
        "run",
        "transport",
        "undetailed",
        "all_cursors",
    ],
}
"""Fields that it takes from the file of the shown rank."""


@pytest.mark.parametrize(
    ("name", "model"), [("", SavedGraphModel), ("graph", GraphModel), ("network", SavedNetwork)]
)
def test_every_field_of_a_file_is_gathered_or_of_the_shown_rank(name, model):
    new = model.__annotations__.keys() - {*WHOLE[name], *OF_THE_SHOWN[name]}
    assert not new, (
        f"{model.__name__} has new fields, {sorted(new)}. A field with a value for each node, edge "
        "or region is gathered from all ranks in `United.showing`; list it in WHOLE. Any other one "
        "is the shown rank's: list it in OF_THE_SHOWN."
    )
