"""Ranks that one process plays in turn, by `as_rank` of `conftest.py`; what their files tell."""

from __future__ import annotations

import torch
from torch import nn

from gradwalk import GraphWidget, load, save, watch
from gradwalk.schema.ranks import rank_in, with_rank


class Branch(nn.Module):
    """One layer of two is used, as the rank has it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 4)

    def forward(self, x, is_second):
        h = self.first(x).tanh()
        if is_second:
            h = self.second(h)
        return h.square().mean()


def batch(rank):
    return torch.randn(5, 3, generator=torch.Generator().manual_seed(rank))


def run(
    as_rank, folder, world=2, *, second=None, change=None, times=None, reduce=True, source=True
):
    """Every rank runs backward, reduces by hand if it is to, and saves; gives the pattern.

    Args:
        as_rank: The fixture.
        folder: Where to save.
        world: How many ranks.
        second: The ranks whose branch takes the second layer; None for all.
        change: Called with a rank, its model and its batch before it runs; may give another batch.
        times: Rank -> what its loss is multiplied with.
        reduce: Whether ``.grad`` becomes the mean of the local ones.
        source: As for `gradwalk.save`.
    """
    ranks = []
    for rank in range(world):
        torch.manual_seed(0)
        model = Branch()
        x = batch(rank)
        if change is not None:
            changed = change(rank, model, x)
            x = x if changed is None else changed
        with watch():
            loss = model(x, second is None or rank in second) * (times or {}).get(rank, 1)
        widget = GraphWidget(loss, names={"model": model})
        loss.backward()
        _ = widget.run  # as a notebook does, or the next cell
        ranks.append((model, widget))
    if reduce:
        for same in zip(*(model.parameters() for model, _ in ranks), strict=True):
            grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in same]
            mean = torch.stack(grads).mean(0)
            for parameter in same:
                parameter.grad = mean.clone()
    for rank, (_, widget) in enumerate(ranks):
        as_rank(rank, world)
        save(widget, folder / f"run-{rank}.gw", source=source)
    return str(folder / "run-*.gw")


def row(widget, name):
    node = next(n["id"] for n in widget.model["nodes"] if n["name"] == name)
    widget.selected = node
    return widget.details["ranks"]


def kinds(widget):
    return [f.kind for f in widget.diagnose() if not f.message.startswith("Rank ")]


def only(widget, kind):
    (found,) = [f for f in widget.diagnose() if f.kind == kind]
    assert found.message.endswith(".")
    return found


def changed(said, **change):
    return {**said, **change}


def as_ddp(pattern, folder, change):
    """The files again, as if DistributedDataParallel had been there, changed."""
    for path in folder.glob("run-*.gw"):
        data = path.read_bytes()
        said = rank_in(data, "")
        graph = data[: data.index(with_rank(b"", said))]
        leaves = [{**leaf, "parallel": "DDP", **change(said, leaf)} for leaf in said["leaves"]]
        path.write_bytes(with_rank(graph, changed(said, leaves=leaves)))
    return load(pattern)
