"""Programs of live pages at random settings: what a page is asked, and what torch gives."""

from __future__ import annotations

from typing import Any

import torch
from live_programs import PROGRAMS

from gradwalk import GraphWidget, watch
from gradwalk.features.live.program import program_model
from gradwalk.features.live.replay import watched_forward

Both = tuple[torch.Tensor, torch.Tensor]
"""A tensor as torch gives it, and in double precision."""


def shown(name: str, leaves: list[torch.Tensor]) -> Any:
    """Run a program under watch and its backward; return the widget and the source."""
    with watch():
        loss = PROGRAMS[name][0](*leaves)
    widget = GraphWidget(loss)
    widget.backward()
    return widget, widget._open()


def in_double(name: str, leaves: list[torch.Tensor], order: list[int]) -> list[torch.Tensor]:
    """Return the loss and the gradients of leaves in double precision."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
        loss = PROGRAMS[name][0](*exact)
        return [loss.detach(), *torch.autograd.grad(loss, [exact[i] for i in order])]
    finally:
        torch.set_default_dtype(default)


def many_settings(name: str, count: int) -> tuple[dict[str, Any], list[list[Both]]]:
    """Return a job for the page, and what torch gives: the loss and the gradients of leaves."""
    torch.manual_seed(4)
    leaves = [each.requires_grad_() for each in PROGRAMS[name][1]()]
    _, source = shown(name, leaves)
    model = program_model(source, watched_forward(source.autograd))
    by_node = dict(source.autograd.leaves())
    inputs = [one for one in model["inputs"] if one["grad"] is not None]
    order = [next(i for i, it in enumerate(leaves) if it is by_node[one["node"]]) for one in inputs]
    (root,) = (one["view"] for one in model["values"] if one["node"] == 0)
    settings, expected = [], []
    for _ in range(count):
        new = [each.requires_grad_() for each in PROGRAMS[name][1]()]
        loss = PROGRAMS[name][0](*new)
        chosen = [new[i] for i in order]
        given = [loss.detach(), *torch.autograd.grad(loss, chosen)]
        expected.append(list(zip(given, in_double(name, new, order), strict=True)))
        pairs = zip(inputs, chosen, strict=True)
        settings.append([[one["view"], it.detach().flatten().tolist()] for one, it in pairs])
    views = [root, *(one["grad"] for one in inputs)]
    return {"model": model, "settings": settings, "views": views}, expected
