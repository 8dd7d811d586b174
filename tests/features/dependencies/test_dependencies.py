"""`dependencies` shows which rows depend on which, and changes nothing."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gradwalk
from gradwalk import dependencies, watch

OWN = torch.eye(6, dtype=torch.bool)
EARLIER = OWN.int().cumsum(0).bool()  # the lower triangle


def rows(batch_first: bool = False) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=batch_first)


def causal(e):
    return rows(batch_first=True)(e, src_mask=nn.Transformer.generate_square_subsequent_mask(6))


CASES = {
    "examples alone": (nn.Linear(8, 3), (6, 8), 0, OWN, False),
    "relu and layer norm": (
        nn.Sequential(nn.Linear(8, 9), nn.LayerNorm(9), nn.ReLU()),
        (6, 8),
        0,
        OWN,
        False,
    ),
    "a softmax alone": (lambda x: x.softmax(-1), (6, 8), 0, OWN, False),
    "a softmax over the batch": (lambda x: x.softmax(0), (6, 8), 0, torch.ones(6, 6) > 0, True),
    "batch norm": (nn.BatchNorm1d(8), (6, 8), 0, torch.ones(6, 6) > 0, True),
    "centred": (lambda x: x - x.mean(0), (6, 8), 0, torch.ones(6, 6) > 0, True),
    "flipped": (lambda x: x.flip(0), (6, 8), 0, OWN.flip(0), True),
    "batch second": (rows(), (6, 4, 8), 0, torch.ones(6, 6) > 0, True),
    "batch second, along it": (rows(), (4, 6, 8), 1, OWN, False),
    "causal": (causal, (2, 6, 8), 1, EARLIER, True),
    "a running sum": (lambda x: x.cumsum(0), (6, 8), 0, EARLIER, True),
}


@pytest.mark.parametrize("name", CASES)
def test_the_matrix_is_of_the_jacobian(name):
    function, shape, dim, wanted, mixes = CASES[name]
    torch.manual_seed(0)
    x = torch.randn(shape, requires_grad=True)
    found = dependencies(function(x), x, dim=dim)
    assert torch.equal(found.matrix, wanted)
    assert found.mixes is mixes
    assert ("no other" in found.sentence) is not mixes


def test_the_sentence_names_the_operation_and_its_line():
    x = torch.randn(6, 8, requires_grad=True)
    with watch():
        loss = x.softmax(0).pow(2).sum(1)
    found = dependencies(loss, x)
    assert "Example 0 of loss depends on examples 0 to 5 of x" in found.sentence
    assert "test_dependencies.py:" in found.sentence
    assert "SoftmaxBackward0" in found.sentence
    assert str(found) == found.sentence
    assert found._repr_html_().count("<rect") == 36


def test_of_many_rows_some_are_tried():
    x = torch.randn(100, 2, requires_grad=True)
    found = dependencies(x.exp(), x, most=5)
    assert found.rows == [0, 25, 50, 74, 99]
    assert found.matrix.shape == (5, 100)
    assert not found.mixes


def test_several_inputs_by_name():
    a, b = torch.randn(3, 2, requires_grad=True), torch.randn(3, 2, requires_grad=True)
    found = dependencies((a * b.sum(0)).sum(1), a, "b")
    assert list(found.matrices) == ["a", "b"]
    assert torch.equal(found.matrices["a"], OWN[:3, :3])
    assert bool(found.matrices["b"].all())


def test_it_changes_nothing():
    x = torch.randn(4, 3, requires_grad=True)
    calls = []
    x.register_hook(calls.append)
    loss = F.dropout(x, 0.5).pow(2).sum(1)
    before = torch.random.get_rng_state()
    dependencies(loss, x)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert x.grad is None
    assert not calls
    loss.sum().backward()  # nothing was freed
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda x, _: dependencies(x.sum(), x), ValueError, 'reduction="none"'),
        (lambda x, _: dependencies(x.exp()), ValueError, "no input"),
        (lambda _, __: dependencies(1, 2), TypeError, "of type int"),
        (lambda x, c: dependencies(x * 2, c), ValueError, "does not require grad"),
        (lambda x, _: dependencies(x * 2, x, dim=5), ValueError, "dim=5"),
        (lambda x, _: dependencies(x * 2, x, most=0), ValueError, "from 1"),
    ],
)
def test_an_error_says_what_to_give(ask, error, words):
    with pytest.raises(error, match=words):
        ask(torch.randn(3, 2, requires_grad=True), torch.ones(3, 2))


def kinds(loss):
    return {each.kind for each in gradwalk.diagnose(gradwalk.record(loss))}


SILENT = {
    "a classifier": lambda x, y: F.cross_entropy(nn.Linear(8, 6)(x), y),
    "batch norm": lambda x, y: F.cross_entropy(
        nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6))(x), y
    ),
    "contrastive": lambda x, _: F.cross_entropy(
        F.normalize(nn.Linear(8, 5)(x)) @ F.normalize(nn.Linear(8, 5)(x)).t(), torch.arange(6)
    ),
    "centred on the batch": lambda x, y: F.cross_entropy((h := nn.Linear(8, 6)(x)) - h.mean(0), y),
    "a softmax over instances of a bag": lambda x, _: (
        (nn.Linear(8, 1)(x).softmax(0) * nn.Linear(8, 3)(x)).sum(0).pow(2).sum()
    ),
}


@pytest.mark.parametrize("name", SILENT)
def test_what_mixes_on_purpose_is_silent(name):
    assert "mixed-rows" not in kinds(SILENT[name](torch.randn(6, 8), torch.randint(0, 5, (6,))))
