"""Torch's warnings and errors in a watched block are as they are without it."""

from __future__ import annotations

import contextlib
import gc
import traceback
import warnings
import weakref
from pathlib import Path

import pytest
import torch

from gradwalk import watch

# Each warns: in C++ or in Python, from a method, a function, an attribute or a module.
WARN = {
    "an attribute of C++": "x.T",
    "a method of C++": "torch.ones(1).std()",
    "the .grad of a tensor that is not a leaf": "(x * 2).grad",
    "a function of Python": "F.mse_loss(x, torch.zeros(2, 3, 1))",
    "a helper of a function of Python": "F.softmax(x)",
    "a copy": "torch.tensor(x)",
    "a function within torch's own": "torch.meshgrid(torch.arange(3), torch.arange(2))",
    "a module": "nn.MSELoss()(x, torch.zeros(2, 3, 1))",
    "a deprecated argument of a backward": (
        "torch.autograd.grad((x * 2).sum(), x, only_inputs=False)"
    ),
}


@pytest.fixture(autouse=True)
def each_time():
    """Switch off that torch warns of some things once in a process."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(before)


def warned(path: Path, statement: str, context) -> list[tuple[object, ...]]:
    """Run a statement on three lines, twice on the last, and return the warnings."""
    program = (
        "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"
        "x = torch.ones(2, 3, 4, requires_grad=True)\n"
        f"{statement}\n{statement}\nfor _ in range(2): {statement}\n"
    )
    path.write_text(program, encoding="utf-8")
    with warnings.catch_warnings(record=True) as seen:
        warnings.resetwarnings()
        warnings.simplefilter("default")
        with context:
            exec(compile(program, str(path), "exec"), {"__name__": "program"})
    return [(each.filename, each.lineno, each.category, str(each.message)) for each in seen]


@pytest.mark.parametrize("statement", WARN.values(), ids=WARN)
def test_a_warning_has_the_line_that_it_has_without_the_block(statement, tmp_path):
    path = tmp_path / "program.py"
    plain = warned(path, statement, contextlib.nullcontext())
    assert plain
    assert warned(path, statement, watch()) == plain


def test_a_filter_by_module_finds_the_user_s(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", module="program")
        names = {"__name__": "program", "torch": torch, "x": torch.ones(2, 3, 4)}
        with pytest.raises(UserWarning, match=r"x\.T"), watch():
            exec("x.T", names)


def test_the_traceback_of_an_error_has_one_frame_more():
    def frames() -> list[str]:
        try:
            torch.ones(3, requires_grad=True).reshape(7)
        except RuntimeError as error:
            return [each.name for each in traceback.extract_tb(error.__traceback__)]
        return []

    plain = frames()
    with watch():
        seen = frames()
    assert [each for each in seen if each != "__torch_function__"] == plain
    assert len(seen) == len(plain) + 1


def test_a_block_keeps_no_variables_of_the_program():
    with watch():
        names = {"torch": torch}
        exec("x = torch.ones(3, requires_grad=True)\ny = x.sin().detach()\nx = None", names)
        kept = weakref.ref(names["y"])
        del names
        gc.collect()
        assert kept() is None
