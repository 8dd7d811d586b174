"""Argument names are those of torch's own loader, for every backward class it knows."""

from __future__ import annotations

from pathlib import Path

import pytest
import torchgen
from torchgen.packaged.autograd.load_derivatives import load_derivatives

from gradwalk import signatures
from gradwalk.signatures import argument_names, parse_derivatives, signature

PACKAGED = Path(torchgen.__file__).parent / "packaged"


@pytest.fixture(scope="module")
def torchs():
    """Backward class -> the argument lists torch's loader gives it (one per operator)."""
    infos, _ = load_derivatives(
        str(PACKAGED / "autograd" / "derivatives.yaml"),
        str(PACKAGED / "ATen" / "native" / "native_functions.yaml"),
        str(PACKAGED / "ATen" / "native" / "tags.yaml"),
    )
    found: dict[str, list[list[tuple[str, bool]]]] = {}
    for by_key in infos.values():
        for info in by_key.values():
            if info.op is not None:
                arguments = [
                    (a.name, "[]" in str(a.argument.type)) for a in info.args_with_derivatives
                ]
                found.setdefault(info.op, []).append(arguments)
    return found


def test_every_class_and_its_arguments(torchs):
    assert len(torchs) > 600
    for op, possible in torchs.items():
        found = signature(op)
        assert found is not None, op
        assert [(a.name, a.is_list) for a in found.arguments] in possible, op


def test_no_class_is_made_up(torchs):
    assert set(signatures._signatures()) <= set(torchs)


def test_a_list_takes_what_is_left():
    assert argument_names("CatBackward0", 3) == ("tensors[0]", "tensors[1]", "tensors[2]")
    assert argument_names("AddmmBackward0", 3) == ("self", "mat1", "mat2")


def test_what_torch_does_not_name_has_no_name():
    assert signature("SomethingElse") is None
    assert argument_names("SomethingElse", 2) == (None, None)
    assert argument_names("MulBackward0", 5) == (None,) * 5


def test_entries_with_dispatch_keys_and_several_names_on_a_line():
    text = """
- name: one(Tensor self, int dim) -> Tensor
  self: grad
- name: one.two(Tensor(a) self, Tensor[] others, Tensor? third=None) -> Tensor(a)[]
  dispatch:
    Default:
      self, others: formula(grad)
      third: non_differentiable
    AutogradNestedTensor:
      self: other(grad)
  result: auto
"""
    found = parse_derivatives(text)
    assert set(found) == {"OneBackward0", "OneBackward1", "OneBackwardAutogradNestedTensor0"}
    assert [a.name for a in found["OneBackward1"].arguments] == ["self", "others"]
    assert found["OneBackward1"].arguments[1].is_list
