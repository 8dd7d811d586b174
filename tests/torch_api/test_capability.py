"""A capability is found at its first use, wherever that is, and falls back where it is lost."""

from __future__ import annotations

import threading
from operator import attrgetter

import pytest
import torch
from fresh import fresh

from gradwalk.torch_api import capability as module
from gradwalk.torch_api.capability import (
    NEWEST,
    OLDEST,
    aside,
    capability,
    direct,
    find,
    is_there,
    lost_sentences,
    named,
    optional,
    sentence,
)
from gradwalk.torch_api.watching import can_watch

LOST = "What the tests take away is unknown"


@pytest.fixture(autouse=True)
def nothing_lost(monkeypatch):
    monkeypatch.setattr(module, "_lost", {})


def test_it_is_found_once_and_then_called_directly():
    made = []

    @capability("Tensor._version", otherwise=lambda _: -1, lost=LOST)
    def version(read):
        """Return a version."""
        made.append(threading.current_thread())
        return read

    assert not made
    assert version.__doc__ == "Return a version."
    kept = version  # as another module that has imported it
    tensor = torch.ones(2).add_(1)
    assert [kept(tensor), version(tensor)] == [1, 1]
    assert len(made) == 1
    assert made[0] is not threading.current_thread()
    assert is_there(version)
    assert type(direct(version)) is attrgetter
    assert lost_sentences() == []


def fails(_):
    raise RuntimeError("It is there, but does something else now.")


@pytest.mark.parametrize("name", ["torch._C._no_such_name", "torch._no.module.name"])
@pytest.mark.parametrize("make", [lambda found: found, fails])
def test_a_missing_one_falls_back(name, make):
    lost = capability(name, otherwise=lambda x: x + 1, lost=LOST)(make)
    assert [lost(1), lost(2)] == [2, 3]
    assert not is_there(lost)
    assert lost_sentences() == [sentence(LOST, torch.__version__)]


def test_one_that_raises_when_it_is_tried_falls_back():
    lost = capability("Tensor._version", otherwise=lambda _: -1)(fails)
    assert lost(torch.ones(1)) == -1
    assert lost_sentences() == []  # the fallback does as well


def test_the_sentence_says_whether_torch_is_newer():
    assert sentence(LOST, "2.16.0") == (
        f"{LOST} with torch 2.16.0, which is newer than this version of gradwalk."
    )
    for known in (f"{OLDEST}.0", f"{NEWEST}.1+cu132", "of an unknown release"):
        assert sentence(LOST, known) == f"{LOST} with torch {known}."


def test_names_are_found_by_their_path():
    tensor = torch.ones(2)
    assert find("torch._C._functions.AccumulateGrad").__name__ == "AccumulateGrad"
    assert find("torch.testing._internal.common_dtype").__name__.endswith("common_dtype")
    assert find("Tensor._use_count()")(tensor) >= 1
    assert find("Node._saved_*") == "_saved_"
    assert optional("Tensor._no_such_name")(tensor) is None
    assert named("torch.nn.modules.linear.Linear")(torch.nn.Linear)


def test_aside_no_mode_is_active():
    with torch.no_grad(), torch.device("meta"), torch.inference_mode():
        made = aside(lambda: torch.ones(1, requires_grad=True) * 2)
    assert made.grad_fn is not None
    assert made.device.type == "cpu"
    with pytest.raises(ZeroDivisionError):
        aside(lambda: 1 / 0)


def test_watching_needs_what_torch_has():
    assert can_watch()
    assert lost_sentences() == []


EVERYTHING = """
import warnings
warnings.simplefilter("ignore")
import torch, torch._inductor.analysis.device_info, torch.distributed._local_tensor
import functools, gc, pkgutil, importlib
import gradwalk
for found in pkgutil.walk_packages(gradwalk.__path__, "gradwalk."):
    if not found.name.endswith("__main__") and ".integrations." not in found.name:
        importlib.import_module(found.name)
all_of_them = [
    each for each in gc.get_objects()
    if type(each) is functools.partial and "resolve" in vars(each)
]
"""


def test_no_private_name_is_read_at_import():
    code = "print(len(all_of_them), sum('is_there' in vars(each) for each in all_of_them))"
    count, found = map(int, fresh(code, EVERYTHING).split())
    assert count > 60
    assert found == 0


FIRST_USE = {
    "nothing around": "look(torch.ones(3))",
    "vmap": "torch.vmap(look)(torch.ones(2, 3))",
    "grad": "torch.func.grad(lambda x: look(x).sum())(torch.ones(3))",
    "a dispatch mode": "with Dispatched() as mode: look(torch.ones(3))",
    "a function mode": "with torch.device('meta'): look(torch.ones(3, device='cpu'))",
    "no grad mode": "with torch.no_grad(): look(torch.ones(3))",
    "saved tensors": "with saved_tensors_hooks(fail, fail): look(torch.ones(3))",
    "an anomaly": "with torch.autograd.detect_anomaly(): look(torch.ones(3))",
    "a pass": "x = torch.ones(3, requires_grad=True); y = x * 2\n"
    "y.register_hook(lambda grad: look(grad)); y.sum().backward()",
}


@pytest.mark.parametrize("place", FIRST_USE)
def test_its_first_use_may_be_anywhere(place):
    """Nothing is lost, and nobody sees how it was tried."""
    code = f"""
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from gradwalk.torch_api.capability import is_there

class Dispatched(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        assert not inside, function
        return function(*args, **(kwargs or {{}}))

def fail(*_):
    raise AssertionError("It was seen.")

inside = []

def look(x):
    inside.append(x)
    lost = [each.__doc__ or each.__module__ for each in all_of_them if not is_there(each)]
    inside.clear()
    print(lost)
    return x

{FIRST_USE[place]}
"""
    assert fresh(code, EVERYTHING) == "[]\n"
