"""The files of several ranks as one: laid side by side, judged, and refused where they do not fit.

Here the ranks are one process that says that it is each of them in turn; `test_ranks.py` has real
ones, `test_pipelines.py` the stages of pipelines.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys

import pytest
import torch
from played_ranks import Branch, as_ddp, batch, changed, kinds, only, row, run
from torch import nn

import gradwalk
from gradwalk import GraphWidget, load, save
from gradwalk.schema.ranks import RankModel, rank_in, with_rank
from gradwalk.schema.validate import check

pytestmark = pytest.mark.one_python


@pytest.mark.parametrize("world", [1, 2, 5])
def test_one_picture_with_the_gradients_of_every_rank(as_rank, tmp_path, world):
    pattern = run(as_rank, tmp_path, world)
    widget = load(pattern)
    assert kinds(widget) == []
    found = row(widget, "model.first.bias")
    assert [each["rank"] for each in found] == [*range(world)]
    local = [torch.tensor(each["local"]["values"]) for each in found]
    for rank in range(world):
        torch.manual_seed(0)
        model = Branch()
        model(batch(rank), True).backward()
        assert torch.allclose(local[rank], model.first.bias.grad)
        reduced = torch.tensor(found[rank]["reduced"]["values"])
        assert torch.allclose(reduced, torch.stack(local).mean(0))
        difference = torch.tensor(found[rank]["difference"]["values"])
        assert torch.equal(difference, local[rank] - reduced)
        weight = row(widget, "model.second.weight")[rank]
        assert weight["local"]["norm"] == pytest.approx(model.second.weight.grad.norm().item())
        shown = load(pattern, rank=rank)
        assert shown.details is None
        assert row(shown, "model.first.bias") == found
        (own,) = load(tmp_path / f"run-{rank}.gw").to_networkx().graph["roots"]
        assert own == shown.to_networkx().graph["roots"][0]
    operation = next(n["id"] for n in widget.model["nodes"] if n["kind"] == "op")
    widget.selected = operation
    assert widget.details["ranks"] == []
    files = [tmp_path / f"run-{rank}.gw" for rank in reversed(range(world))]
    assert row(load(files), "model.first.bias") == found


def test_what_is_loaded_can_be_saved_and_made_a_page(as_rank, tmp_path, monkeypatch):
    pattern = run(as_rank, tmp_path, second=[0])
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: False)
    widget = load(pattern)
    again = load(save(widget, tmp_path / "all.gw"))
    assert row(again, "model.second.bias") == row(widget, "model.second.bias")
    assert [f.message for f in again.diagnose()] == [f.message for f in widget.diagnose()]
    page = tmp_path / "out.html"
    done = subprocess.run(
        [sys.executable, "-m", "gradwalk", pattern, "--html", str(page), "--rank", "1"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert page.stat().st_size > 1000


def test_a_parameter_that_some_ranks_leave_out(as_rank, tmp_path):
    for world, second in ((2, [0]), (3, [1, 2]), (4, [3])):
        folder = tmp_path / str(world)
        folder.mkdir()
        widget = load(run(as_rank, folder, world, second=second))
        found = only(widget, "unused-on-rank")
        unused = [rank for rank in range(world) if rank not in second]
        words = gradwalk.features.ranks.leaf_over_ranks.as_ranks
        assert f"got no gradient on {words(unused)}, and did on {words(second)}" in found.message
        both = "model.second.bias and model.second.weight"
        assert f"{both} at tests/support/played_ranks.py" in found.message  # of one line
        assert "(`h = self.second(h)`)" in found.message
        if 0 in second:
            rows = row(widget, "model.second.bias")
            assert [each["local"] is None for each in rows] == [r in unused for r in range(world)]
            assert f"The graph of {words(unused)} has no such node." in widget.details["about"]
        shown = load(str(folder / "run-*.gw"), rank=second[0])
        assert set(only(shown, "unused-on-rank").nodes) == {
            n["id"] for n in shown.model["nodes"] if (n["name"] or "").startswith("model.second")
        }
        assert row(shown, "model.first.bias")[unused[0]]["local"] is not None


def test_lines_are_left_out_where_they_shall_be(as_rank, tmp_path):
    widget = load(run(as_rank, tmp_path, second=[0], source=False))
    assert "`" not in only(widget, "unused-on-rank").message
    assert b"self.second" not in b"".join(
        str(rank_in(path.read_bytes(), "")).encode() for path in tmp_path.iterdir()
    )


@pytest.mark.parametrize("world", [2, 3])
def test_gradients_that_were_not_reduced(as_rank, tmp_path, world):
    widget = load(run(as_rank, tmp_path, world, reduce=False))
    found = only(widget, "not-reduced")
    assert found.severity == "error"
    assert "On each rank it is what arrived there, so nothing was reduced" in found.message
    assert re.search(r"model\.first\.\w+ and model\.first\.\w+ at ", found.message)
    (name,) = re.findall(r"the norm of (\S+) is", found.message)
    for each in row(widget, name):
        assert f"{each['reduced']['norm']:.6g} on rank {each['rank']}" in found.message


def test_other_weights_on_each_rank_need_not_agree(as_rank, tmp_path):
    """Stages of a pipeline, say: equal names and shapes, with other weights."""

    def change(rank, model, x):
        torch.manual_seed(10 + rank)
        for parameter in model.parameters():
            nn.init.normal_(parameter)

    assert kinds(load(run(as_rank, tmp_path, reduce=False, change=change))) == []


@pytest.mark.parametrize("world", [2, 4])
def test_copies_that_began_from_another_seed(as_rank, tmp_path, world):
    """Nobody says that they are copies, but their gradients are averaged."""

    def change(rank, model, x):
        if rank == world - 1:
            torch.manual_seed(7)
            for parameter in model.parameters():
                nn.init.normal_(parameter)

    pattern = run(as_rank, tmp_path, world, change=change)
    message = only(load(pattern), "drifted").message
    for name in ("model.first.weight", "model.second.bias"):
        assert name in message
    assert message.count("played_ranks.py") == 2  # one for each line
    assert ("not on rank 3" in message) is (world == 4)
    assert kinds(load(pattern)) == ["drifted"]


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_nan_on_one_rank(as_rank, tmp_path, odd):
    def change(rank, model, x):
        return torch.full_like(x, odd) if rank == 1 else None

    widget = load(run(as_rank, tmp_path, 3, change=change))
    found = only(widget, "nan-on-rank")
    assert found.severity == "error"
    assert "NaN on rank 1, and none on the other ranks" in found.message
    assert "rank=1" in found.message
    assert widget.diagnose()[0] == found


def test_one_rank_with_a_much_larger_gradient(as_rank, tmp_path):
    for times, is_found in ((1e4, True), (10.0, False)):
        folder = tmp_path / str(is_found)
        folder.mkdir()
        pattern = run(as_rank, folder, 3, times={2: times})
        if not is_found:
            assert kinds(load(pattern)) == []
            continue
        found = only(load(pattern), "large-on-rank")
        rows = [row(load(pattern), f"model.{name}") for name, _ in Branch().named_parameters()]
        totals = [math.hypot(*(of[rank]["local"]["norm"] for of in rows)) for rank in range(3)]
        assert found.numbers == {
            "rank": 2,
            "norm": pytest.approx(totals[2]),
            "others": pytest.approx(sum(totals[:2]) / 2),
        }
        most = max(rows, key=lambda of: of[2]["local"]["norm"])
        assert row(load(pattern), load(pattern).model["nodes"][found.nodes[0]]["name"]) == most


def test_files_that_do_not_fit_are_refused(as_rank, tmp_path, monkeypatch):
    pattern = run(as_rank, tmp_path)
    first, second = sorted(tmp_path.iterdir())

    def refused(path, **more):
        with pytest.raises((ValueError, TypeError, OSError)) as caught:
            load(path, **more)
        text = str(caught.value)
        assert text.endswith(".")
        return text

    assert "no file fits it" in refused(str(tmp_path / "no-*.gw"))
    assert "empty list" in refused([])
    assert "the files are of ranks 0 and 1" in refused(pattern, rank=2)
    assert "number of a rank" in refused(pattern, rank="1")
    assert "along with one file" in refused(first, rank=0)
    copy = tmp_path / "run-copy.gw"
    copy.write_bytes(first.read_bytes())
    assert "are both of rank 0" in refused(pattern)
    copy.unlink()
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: False)
    alone = save(torch.ones(1, requires_grad=True) * 2, tmp_path / "run-alone.gw")
    assert "is of no rank" in refused(pattern)
    alone.unlink()
    data = second.read_bytes()
    said = rank_in(data, "")
    graph = data[: data.index(with_rank(b"", said))]
    for change, words in (
        ({"world_size": 3}, "is of another run (3 ranks) than"),
        ({"rank": 7}, "is damaged: it says rank 7 of 2"),
        ({"rank": "1"}, "is damaged"),
        ({"version": 99}, "version 99"),
        ({"leaves": [{}]}, "is damaged"),
    ):
        second.write_bytes(with_rank(graph, changed(said, **change)))
        assert words in refused(pattern), change
    second.write_bytes(with_rank(graph, changed(said, run="b")))
    first.write_bytes(with_rank(first.read_bytes()[:-1] and graph, changed(said, rank=0, run="a")))
    assert "is of another run (b, 2 ranks) than" in refused(pattern)
    for cut in (data[-30:], data[-16:], data[-9:], data[-8:]):
        second.write_bytes(cut)
        assert "is damaged" in refused(pattern)


def test_every_wrong_value_of_a_rank_is_found_and_its_place_told(as_rank, tmp_path):
    run(as_rank, tmp_path)
    says = rank_in((tmp_path / "run-1.gw").read_bytes(), "")

    def places(value, path=""):
        if isinstance(value, dict):
            for name, each in value.items():
                yield f"{path}.{name}", value, name
                yield from places(each, f"{path}.{name}")
        elif isinstance(value, list):
            for i, each in enumerate(value):
                yield f"{path}[{i}]", value, i
                yield from places(each, f"{path}[{i}]")

    for path, holder, key in [*places(says)]:
        before = holder[key]
        for wrong in ([{}], {"no": 1}, 2**70):
            holder[key] = wrong
            with pytest.raises(ValueError, match=re.escape(f"what it says{path}")):
                check(says, RankModel, "what it says")
        holder[key] = before
    check(says, RankModel, "what it says")


def test_of_many_ranks_the_first_alone_keeps_the_details_of_all_nodes(
    as_rank, tmp_path, monkeypatch
):
    monkeypatch.setattr(gradwalk.export.save, "MOST_DETAILED", 30)
    monkeypatch.setattr(gradwalk.export.save, "FEWEST_DETAILED", 2)
    for world, kept in ((3, 10), (20, 2)):
        folder = tmp_path / str(world)
        folder.mkdir()
        pattern = run(as_rank, folder, world)
        for rank in range(world):
            widget = load(pattern, rank=rank)
            known = 0
            for node in range(len(widget.model["nodes"])):
                widget.selected = node
                known += not widget.details["about"].startswith("Not saved")
            assert known == (len(widget.model["nodes"]) if rank == 0 else kept)
            assert len(row(widget, "model.first.bias")) == world


def test_a_missing_rank_and_other_versions_are_told(as_rank, tmp_path):
    pattern = run(as_rank, tmp_path, 4)
    for rank in (1, 3):
        (tmp_path / f"run-{rank}.gw").unlink()
    path = tmp_path / "run-2.gw"
    data = path.read_bytes()
    said = rank_in(data, "")
    graph = data[: data.index(with_rank(b"", said))]
    path.write_bytes(with_rank(graph, changed(said, torch_version="9.9.9", recorded=False)))
    with pytest.warns(UserWarning, match="rank") as told:
        widget = load(pattern)
    text = " ".join(str(each.message) for each in told)
    assert "The file of ranks 1 and 3 of 4 is missing" in text
    assert f"{torch.__version__} on rank 0 and 9.9.9 on rank 2" in text
    assert "The file of rank 2 holds no backward pass" in text
    assert all(each.filename == __file__ for each in told)
    assert [f.message for f in widget.diagnose() if f.kind == "ranks"] == [
        str(each.message) for each in told
    ]
    assert [each["rank"] for each in row(widget, "model.first.bias")] == [0, 2]


def test_a_leaf_is_explained_by_its_name(as_rank, tmp_path):
    healthy, unused, bare = (tmp_path / name for name in ("healthy", "unused", "bare"))
    for folder in (healthy, unused, bare):
        folder.mkdir()
    name = "model.second.weight"
    good = gradwalk.explain_grad(name, load(run(as_rank, healthy, 3)))
    assert "as after averaging over the ranks" in good
    text = gradwalk.explain_grad(name, load(run(as_rank, unused, 3, second=[0, 2])))
    assert f"{name} at " in text
    assert "got no gradient on rank 1, and did on ranks 0 and 2" in text
    assert "model.second.bias" not in text
    missing = gradwalk.explain_grad(name, load(run(as_rank, bare, 2, reduce=False)))
    assert f"the .grad of {name} at " in missing
    assert "nothing was reduced" in missing
    with pytest.raises(ValueError, match=r"'third'.*not name a leaf.*'model.first.bias'"):
        gradwalk.explain_grad("third", load(str(bare / "run-*.gw")))
    for outputs in ((), (torch.ones(1),), (load(str(bare / "run-*.gw")), 1)):
        with pytest.raises(TypeError, match="the widget whose graph has it"):
            gradwalk.explain_grad(name, *outputs)
    w = torch.tensor([2.0], requires_grad=True)
    assert "no backward pass has added" in gradwalk.explain_grad("w", GraphWidget(w * 3))


def test_the_branch_that_left_a_parameter_out(as_rank, tmp_path):
    found = only(load(run(as_rank, tmp_path, second=[0])), "unused-on-rank")
    assert re.search(
        r"as when `if is_second:` at \S*played_ranks.py:(\d+), which encloses that line,"
        r" goes the other way",
        found.message,
    )
    first = gradwalk.schema.ranks.rank_in((tmp_path / "run-0.gw").read_bytes(), "")
    for leaf in first["leaves"]:
        assert (leaf["branch"] is not None) == leaf["name"].startswith("model.second")


@pytest.mark.parametrize(
    ("program", "branches"),
    [
        ("if a:\n  b\nelif c:\n  d\nelse:\n  e\nf", {2: 1, 3: 1, 4: 3, 5: 1, 6: 3}),
        ("while a:\n  if b:\n    c\n  d", {2: 1, 3: 2, 4: 1}),
        ("if a:\n  def f():\n    b\n    return c\n  d", {2: 1, 5: 1}),
        ("x = (\n  f(x)\n  if a\n  else x\n)", {2: 3, 4: 3}),
        ("match a:\n  case 1:\n    b\n  case _:\n    c", {3: 1, 5: 1}),
        ("if a: b", {1: 1}),
        ("for a in b:\n  c", {}),
        ("if a:\n b\n  c", {}),
        ("", {}),
    ],
)
def test_branches_of_lines(program, branches):
    assert gradwalk.tracing.source_line.branches_in(program) == branches


def test_ranks_that_had_the_same_batch(as_rank, tmp_path):
    def change(rank, model, x):
        return batch(0) if rank in (1, 3) else None

    pattern = run(as_rank, tmp_path, 4, change=change)
    assert "same-batch" not in kinds(load(pattern))  # nothing says that they are averaged
    widget = as_ddp(pattern, tmp_path, lambda said, leaf: {})
    found = only(widget, "same-batch")
    assert found.numbers == {"ranks": 3}
    assert "The local gradients of ranks 0, 1 and 3 are the very same" in found.message


@pytest.mark.parametrize("world", [3, 5])
def test_the_rank_that_is_not_as_most_is_named(as_rank, tmp_path, world):
    def change(rank, model, x):
        if rank == 2:
            with torch.no_grad():
                model.second.weight += 1

    pattern = run(as_rank, tmp_path, world, change=change)
    found = only(as_ddp(pattern, tmp_path, lambda said, leaf: {}), "drifted")
    rest = " and ".join(
        [", ".join(str(r) for r in range(world - 1) if r != 2), str(world - 1)]
        if world > 3
        else ["0", "1"]
    )
    assert f"It is the same on ranks {rest}, and not on rank 2." in found.message
    assert "model.second.weight at " in found.message


def steps_of(optimizer):
    def change(rank, model, x):
        chosen = optimizer(model.parameters(), 0.1)
        for _ in range(2 + 3 * (rank == 1)):
            model(x, True).backward()
            chosen.step()
            chosen.zero_grad()

    return change


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
@pytest.mark.parametrize("reduce", [True, False])
def test_files_of_different_steps_are_not_judged(as_rank, tmp_path, optimizer, reduce):
    """As a rank saves that has fewer batches, under ``Join``."""
    pattern = run(as_rank, tmp_path, change=steps_of(optimizer), reduce=reduce)
    widget = as_ddp(pattern, tmp_path, lambda said, leaf: {})
    assert kinds(widget) == ["ranks"]
    assert "the files are of different steps" in only(widget, "ranks").message


@pytest.mark.parametrize("reduce", [True, False])
def test_no_finding_says_that_weights_are_equal_which_another_calls_different(
    as_rank, tmp_path, reduce
):
    def change(rank, model, x):
        with torch.no_grad():
            model.first.weight += rank

    pattern = run(as_rank, tmp_path, change=change, reduce=reduce)
    widget = as_ddp(pattern, tmp_path, lambda said, leaf: {})
    said = {each.kind: each.message for each in widget.diagnose()}
    assert "drifted" in said
    assert ("not-reduced" in said) is not reduce
    assert "The weights are the same" not in said.get("not-reduced", "")
