"""`check` over many custom Functions: the right ones agree, and each fault has its name."""

from __future__ import annotations

import pytest
import torch
from right_functions import RIGHT, leaf
from wrong_functions import WRONG, OneEntry

from gradwalk import check


def checked(function, arguments):
    """Check a Function with copies of the arguments, which it may change in place."""
    torch.manual_seed(0)
    given = [each * 1 if isinstance(each, torch.Tensor) else each for each in arguments]
    found = function.apply(*given)
    default, state = torch.get_default_dtype(), torch.get_rng_state()
    result = check(found[0] if isinstance(found, tuple) else found, *arguments)
    assert torch.get_default_dtype() is default
    assert torch.equal(torch.get_rng_state(), state)
    assert all(each.grad is None for each in arguments if isinstance(each, torch.Tensor))
    return result


@pytest.mark.parametrize(("function", "arguments"), RIGHT, ids=[f.__name__ for f, _ in RIGHT])
def test_a_right_backward_agrees(function, arguments):
    found = checked(function, arguments)
    assert (found.agrees, found.fault, found.wrong) == (True, None, ()), found


@pytest.mark.parametrize(
    ("function", "fault", "name", "arguments"), WRONG, ids=[f.__name__ for f, *_ in WRONG]
)
def test_a_fault_has_its_name_and_argument(function, fault, name, arguments):
    found = checked(function, arguments)
    assert (found.agrees, found.fault) == (False, fault), found
    assert {each.by.name for each in found.wrong} == (set() if name is None else {name})


def test_the_wrong_entry_is_named():
    (entry,) = checked(OneEntry, (leaf(5),)).wrong
    assert entry.by.index == entry.output.index == (3,)


def test_every_message_says_what_to_do_or_what_is_wrong():
    sentences = {f.__name__: str(checked(f, arguments)) for f, *_, arguments in WRONG}
    assert "grad_output.contiguous()" in sentences["ReadsAsContiguous"]
    assert "changes its grad_output in place" in sentences["InPlaceG"]
    assert "the derivative of the gradient of x[" in sentences["KeptOnCtx"]
