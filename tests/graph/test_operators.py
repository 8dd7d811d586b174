"""Over torch's own operator database: nothing that is shown of a graph can fail."""

from __future__ import annotations

import itertools
from contextlib import closing, suppress

import pytest
import torch
from operator_corpus import operators, seed

from gradwalk import GraphWidget, save

pytestmark = pytest.mark.one_python

EACH = 29  # of so many operators the default run takes one; `-m full` takes all
SMALL = 400  # numbers


def called(unit):
    return unit.name


def outputs(unit):
    """What the first two small samples of an operator give that has a graph."""
    seed(0)
    op = unit.info
    samples = op.sample_inputs("cpu", unit.dtype, requires_grad=True)
    found = []
    for sample in itertools.islice(samples, 8):
        if not isinstance(sample.input, torch.Tensor) or sample.input.numel() > SMALL:
            continue
        try:
            given = op(sample.input, *sample.args, **sample.kwargs)
        except Exception:  # torch refuses its own sample without a CUDA device, for example
            continue
        several = given if isinstance(given, (tuple, list)) else [given]
        tensors = [t for t in several if isinstance(t, torch.Tensor) and t.requires_grad]
        if tensors:
            found.append(tensors)
        if len(found) == 2:
            break
    return found


def check(unit, folder=None):
    """Looks at the first sample by its outputs, and at the second, or the same, by one number.

    That goes into a page, and into files where there is a folder, which hold what the page does.
    """
    found = outputs(unit)
    for tensors, is_number in zip([*found[:1], *found[-1:]], (False, True), strict=False):
        sizes = [torch.ones(each.shape, dtype=each.dtype) for each in tensors]
        number = sum((each.abs() if each.is_complex() else each).sum() for each in tensors)
        given, gradient = ([number], None) if is_number else (tensors, sizes)
        with closing(GraphWidget(given)) as widget:
            look(widget)
            ran = False
            with suppress(Exception):  # what torch's own backward raises
                widget.backward(gradient=gradient)
                ran = True
            look(widget)
            if ran:
                widget.reset()
                look(widget)
                widget.step()
                widget.step(999)
                assert widget.cursor == len(widget.steps)
            if is_number:
                assert widget.to_html(None if folder is None else folder / "page.html")
                if folder is not None:
                    save(widget, folder / "run.gw.json.gz")


def look(widget):
    for node in range(len(widget.model["nodes"])):
        widget.selected = node
        assert widget._trait_values["details"]["failed"] == []  # as it was sent
    assert widget._fault is None
    assert widget.state is not None
    assert widget.transport is not None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("unit", operators()[::EACH], ids=called)
def test_a_share_of_the_operators(unit, tmp_path):
    check(unit, tmp_path)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("unit", operators(), ids=called)
def test_every_operator(unit):
    check(unit)
