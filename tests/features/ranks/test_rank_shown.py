"""Which rank of several is shown, and what the picture says of the others."""

from __future__ import annotations

import math

import pytest
import torch
from played_ranks import Branch, batch, row, run

from gradwalk import GraphWidget, load, save
from gradwalk.features.ranks import leaf_over_ranks, ranked_graph
from gradwalk.features.ranks.leaf_over_ranks import (
    MOST_BARS,
    LeafOverRanks,
    are_odd,
    not_as_most,
    reduced_of,
)

pytestmark = pytest.mark.one_python


def grads(rank, *, second=True):
    torch.manual_seed(0)
    model = Branch()
    model(batch(rank), second).backward()
    return {f"model.{name}": p.grad for name, p in model.named_parameters() if p.grad is not None}


def strips(widget):
    """By label the strip of each named node."""
    nodes = widget.model["nodes"]
    return {
        nodes[strip["node"]]["name"]: strip
        for strip in widget.model["ranks"]["nodes"]
        if nodes[strip["node"]]["name"]
    }


def ids(widget):
    return {n["name"]: n["id"] for n in widget.model["nodes"] if n["name"]}


@pytest.mark.parametrize("world", [1, 2, 5])
def test_each_rank_is_shown_with_its_own_numbers(as_rank, tmp_path, world):
    widget = load(run(as_rank, tmp_path, world))
    assert widget.rank == 0
    assert widget._ranks == [*range(world)]
    name = "model.first.weight"
    widget.selected = ids(widget)[name]
    for rank in [*reversed(range(world)), 0]:
        widget.rank = rank
        assert widget.rank == widget.model["ranks"]["shown"] == rank
        assert widget.selected == ids(widget)[name]
        came = widget.details["grad_output"][0]
        assert came["norm"] == pytest.approx(grads(rank)[name].norm().item(), rel=1e-6)
        (root,) = widget.model["roots"]
        loss = Branch.forward(seeded(), batch(rank), True)
        assert widget.model["nodes"][root["node"]]["value"] == pytest.approx(loss.item())


def seeded():
    torch.manual_seed(0)
    return Branch()


def test_equal_graphs_move_nothing_and_the_cursor_stays(as_rank, tmp_path):
    widget = load(run(as_rank, tmp_path, 3))
    end = len(widget.steps)
    widget.cursor = 2
    widget.diagnose()
    model = widget.model
    widget.rank = 2
    assert widget._update["before"] is None  # where only numbers are others nothing moves
    assert widget._update["words"] == "the same graph as on rank 0"
    assert widget.model["edges"] == model["edges"]
    assert widget.cursor == 2
    assert [f.message for f in widget.findings if f.message.startswith("Rank 0")] == []
    widget.cursor = end
    widget.rank = 1
    assert widget.cursor == len(widget.steps) == end


def test_bars_are_the_norms_that_torch_has(as_rank, tmp_path):
    world = 5
    widget = load(run(as_rank, tmp_path, world))
    ranks = widget.model["ranks"]
    assert ranks["first"] == ranks["last"] == [*range(world)]
    found = strips(widget)
    for name, strip in found.items():
        if name.startswith("model."):
            expected = [grads(rank)[name].norm().item() for rank in range(world)]
            assert strip["most"] == pytest.approx(expected, rel=1e-3)
        assert strip["least"] is None
        assert strip["only"] is None
    # Of operations too: what arrives at each, as each rank's own file has it.
    for rank in range(world):
        alone = load(tmp_path / f"run-{rank}.gw")
        for strip in ranks["nodes"]:
            alone.selected = strip["node"]
            came = [grad for grad in alone.details["grad_output"] if grad is not None]
            largest = max(grad["norm"] for grad in came)
            assert strip["most"][rank] == pytest.approx(largest, rel=1e-3)
    autograd = [n for n in widget.model["nodes"] if n["kind"] in {"op", "leaf"}]
    assert [strip["node"] for strip in ranks["nodes"]] == [n["id"] for n in autograd]


@pytest.mark.parametrize("world", [16, 17, pytest.param(64, marks=pytest.mark.full)])
def test_many_ranks_share_bars(as_rank, tmp_path, world):
    widget = load(run(as_rank, tmp_path, world))
    ranks = widget.model["ranks"]
    assert len(ranks["first"]) <= MOST_BARS
    norms = [grads(rank)["model.second.bias"].norm().item() for rank in range(world)]
    strip = strips(widget)["model.second.bias"]
    shared = [
        norms[first : last + 1] for first, last in zip(ranks["first"], ranks["last"], strict=True)
    ]
    assert sum(map(len, shared)) == world
    assert strip["most"] == pytest.approx([max(each) for each in shared], rel=1e-3)
    if world > MOST_BARS:
        assert strip["least"] == pytest.approx([min(each) for each in shared], rel=1e-3)


def test_what_some_ranks_lack_is_marked(as_rank, tmp_path):
    pattern = run(as_rank, tmp_path, 4, second=[0, 2])
    widget = load(pattern)
    found = strips(widget)
    assert found["model.second.weight"]["only"] == "not on ranks 1 and 3"
    assert found["model.second.weight"]["without"] == [1, 3]
    assert found["model.first.weight"]["only"] is None
    assert widget.model["ranks"]["elsewhere"] == []
    selected = ids(widget)["model.first.weight"]
    widget.selected = selected
    widget.rank = 3
    # A node that it lacks is drawn all the same, at the same place.
    now = strips(widget)
    assert now["model.second.weight"]["only"] == "not on ranks 1 and 3"
    assert (found["model.second.weight"]["here"], now["model.second.weight"]["here"]) == (
        True,
        False,
    )
    assert widget.selected == selected == ids(widget)["model.first.weight"]
    assert widget._update["before"] in (None, [*range(len(widget.model["nodes"]))])
    assert "gone: " in widget._update["words"]
    assert widget.model["ranks"]["elsewhere"] == []
    # It is not in the graph of the rank that is shown.
    here = load(tmp_path / "run-3.gw")
    assert len(widget.to_networkx()) == len(here.to_networkx())
    assert str(widget).splitlines()[0] == str(here).splitlines()[0]
    # In the panel stands what a rank has that has it.
    widget.selected = ids(widget)["model.second.weight"]
    about = widget.details["about"]
    assert about.startswith("The graph of ranks 1 and 3 has no such node. These values are from")
    assert widget.details["grad_output"][0]["norm"] == pytest.approx(
        grads(0)["model.second.weight"].norm().item()
    )
    widget.rank = 0
    assert "not on rank 3: " in widget._update["words"]
    assert len(widget.to_networkx()) == len(load(tmp_path / "run-0.gw").to_networkx())


def test_nan_and_a_missing_gradient_have_marks_of_their_own(as_rank, tmp_path):
    def spoil(rank, model, x):
        if rank == 2:
            return x * math.nan
        if rank == 1:
            model.second.bias.requires_grad_(False)
        return None

    widget = load(run(as_rank, tmp_path, 4, change=spoil, reduce=False))
    strip = strips(widget)["model.second.bias"]
    assert (strip["not_finite"], strip["without"], strip["odd"]) == ([2], [1], [1, 2])
    assert strip["most"][1] is strip["most"][2] is None
    odd = [each["odd"] for each in row(widget, "model.second.bias")]
    assert odd == [False, True, True, False]


def test_the_rule_of_the_odd_one():
    nan = math.nan
    assert are_odd([]) == []
    assert are_odd([1.0, 1000.0]) == [False, False]  # of two neither is the odd one
    assert are_odd([1.0, 1.1, 10.0]) == [False, False, False]
    assert are_odd([1.0, 1.1, 12.0, 0.01]) == [False, False, True, True]
    assert are_odd([0.0, 0.0, 1e-9]) == [False, False, True]
    assert are_odd([nan, nan, 1.0]) == [False, False, True]
    assert are_odd([None, 1.0]) == [True, False]
    assert are_odd([math.inf, 1.0, 2.0]) == [True, False, False]


def test_what_is_no_rank_is_refused(as_rank, tmp_path, monkeypatch):
    pattern = run(as_rank, tmp_path, 2)
    widget = load(pattern)
    for wrong, error in ((2, ValueError), (None, TypeError), ("one", TypeError)):
        with pytest.raises(error, match=r"rank was given .*rank.*0, 1"):
            widget.rank = wrong
        assert widget.rank == 0
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: False)
    x = torch.tensor(3.0, requires_grad=True)
    for other in (GraphWidget(x**2), load(tmp_path / "run-1.gw")):
        assert other.rank is None
        assert other._ranks == []
        with pytest.raises(ValueError, match="not of the files of several ranks"):
            other.rank = 0
    # A copy of all in one file has the strips, and the graph of the one that was shown.
    widget.rank = 1
    again = load(save(widget, tmp_path / "all.gw"))
    assert (again.rank, again._ranks) == (1, [])
    assert again.model["ranks"] == widget.model["ranks"]
    widget.update(x**2)
    assert (widget.rank, widget._ranks, widget.model["ranks"]) == (None, [], None)


@pytest.mark.parametrize("part", [0.02, 0.3, 0.6, 0.9, 0.999])
def test_a_damaged_or_cut_file_of_any_rank_is_refused(as_rank, tmp_path, part):
    pattern = run(as_rank, tmp_path, 2)
    for file in tmp_path.iterdir():
        whole = file.read_bytes()
        place = int(part * len(whole))
        flipped = bytes([whole[place] ^ 16])
        for data in (whole[:place] + flipped + whole[place + 1 :], whole[:place], whole[:-10]):
            file.write_bytes(data)
            with pytest.raises(ValueError, match="damaged"):
                load(pattern)
        file.write_bytes(whole)
    assert load(pattern).rank == 0


@pytest.mark.parametrize("world", [1, 64, 1000])
def test_ranks_that_all_differ_are_not_compared_with_each_other(world, monkeypatch):
    compared = []
    alike = leaf_over_ranks.same
    monkeypatch.setattr(
        leaf_over_ranks, "same", lambda a, b: compared.append(1) is None and alike(a, b)
    )

    def on(numbers):
        told = {
            rank: {"reduced": {"shape": [1], **dict.fromkeys(("norm", "mean", "min", "max"), n)}}
            for rank, n in enumerate(numbers)
        }
        return LeafOverRanks("w", 0, told, frozenset(told))

    assert not_as_most(on(range(1, world + 1)), reduced_of) == (
        ([], []) if world > 1 else ([0], [])
    )
    assert len(compared) <= 5 * world
    numbers = [2.0] * world
    numbers[world // 2] = 3.0
    if world > 1:
        most, odd = not_as_most(on(numbers), reduced_of)
        assert odd == [world // 2]
        assert len(most) == world - 1


def test_a_page_of_many_ranks_keeps_the_table_of_a_leaf_short(as_rank, tmp_path, monkeypatch):
    assert ranked_graph._MOST_ROWS == 64
    monkeypatch.setattr(ranked_graph, "_MOST_ROWS", 8)
    widget = load(run(as_rank, tmp_path, 12, times={10: 1e6}))
    assert len(row(widget, "model.first.bias")) == 12
    again = load(save(widget, tmp_path / "all.gw"))
    kept = row(again, "model.first.bias")
    assert len(kept) == 8
    assert [each["rank"] for each in kept if each["odd"]] == [10]
    assert [each["rank"] for each in kept[:3]] == [0, 1, 2]
