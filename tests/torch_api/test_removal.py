"""A private name of torch that moves costs one feature: each is taken away, and made to raise."""

from __future__ import annotations

import json

import pytest
from fresh import fresh
from private_names import declared

START = """
import resource, sys, warnings
warnings.simplefilter("ignore")
import torch, torch.export, torch.func, torch.fx, torch.utils.checkpoint, torch.utils.flop_counter
import anywidget, IPython.display, networkx, numpy, traitlets
import removal
removal.prepare()
"""


def without(name: str, how: str) -> dict[str, object]:
    return json.loads(fresh(f"removal.without({name!r}, {how!r})", START))


def test_nothing_is_lost_with_this_torch():
    assert without("none", "there") == {"taken": False, "lost": []}


@pytest.mark.parametrize("name", declared())
def test_gradwalk_works_without(name):
    without(name, "gone")


@pytest.mark.full
@pytest.mark.parametrize("name", declared())
def test_gradwalk_works_if_it_raises(name):
    without(name, "raises")
