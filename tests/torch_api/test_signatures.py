"""Argument names are those of torch's own loader, for every backward class it knows."""

from __future__ import annotations

from pathlib import Path

import pytest
import torchgen
from torchgen.packaged.autograd.load_derivatives import load_derivatives

from gradwalk.torch_api import signatures
from gradwalk.torch_api.signatures import argument_names, parse_derivatives, signature

pytestmark = pytest.mark.one_python

PACKAGED = Path(torchgen.__file__).parent / "packaged"


@pytest.fixture(scope="module")
def loaded():
    """What torch's loader knows of every backward class."""
    infos, _ = load_derivatives(
        str(PACKAGED / "autograd" / "derivatives.yaml"),
        str(PACKAGED / "ATen" / "native" / "native_functions.yaml"),
        str(PACKAGED / "ATen" / "native" / "tags.yaml"),
    )
    return [info for by_key in infos.values() for info in by_key.values() if info.op is not None]


@pytest.fixture(scope="module")
def torchs(loaded):
    """Backward class -> the argument lists torch's loader gives it (one per operator)."""
    found: dict[str, list[list[tuple[str, bool]]]] = {}
    for info in loaded:
        arguments = [(a.name, "[]" in str(a.argument.type)) for a in info.args_with_derivatives]
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


def test_every_formula_is_torchs_text(loaded):
    seen: dict[str, list[dict[str, str]]] = {}
    for info in loaded:
        texts = {
            name: " ".join(derivative.original_formula.split())
            for derivative in info.derivatives
            for name in derivative.var_names
        }
        seen.setdefault(info.op, []).append(texts)
    assert len(seen) > 600
    for op, possible in seen.items():
        assert signature(op).formulas in possible, op


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
      # not a field: of any kind
      self: "other(grad)
        ? one::two : three"
  result: auto
"""
    found = parse_derivatives(text)
    assert set(found) == {"OneBackward0", "OneBackward1", "OneBackwardAutogradNestedTensor0"}
    assert [a.name for a in found["OneBackward1"].arguments] == ["self", "others"]
    assert found["OneBackward1"].arguments[1].is_list
    assert found["OneBackward0"].formulas == {"self": "grad"}
    assert found["OneBackward1"].formulas == dict.fromkeys(["self", "others"], "formula(grad)")
    nested = found["OneBackwardAutogradNestedTensor0"]
    assert nested.formulas == {"self": "other(grad) ? one::two : three"}
