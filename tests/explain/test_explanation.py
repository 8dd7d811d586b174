"""The answer of `explain_grad` is a sentence with its parts."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

from gradwalk import GraphWidget, explain_grad, load, save, watch
from gradwalk.results import Explanation


def test_a_tensor_has_its_kind_node_and_cause():
    w, x = torch.tensor([4.0], requires_grad=True), torch.tensor([2.0])
    loss = w * x
    found = explain_grad(x, loss)
    assert isinstance(found, Explanation)
    assert (found.kind, found.tensor, found.node, found.parts) == ("frozen", "x", None, ())
    assert explain_grad(w, loss).node == 1
    assert repr(found) == str(found) == f"{found}"
    assert "requires_grad is False" in found


def test_the_line_is_where_the_gradient_was_cut():
    w = torch.tensor([4.0], requires_grad=True)
    v = torch.tensor([4.0], requires_grad=True)
    with watch():
        loss = (w.detach() * v).sum()
    found = explain_grad(w, loss)
    assert found.kind == "cut"
    assert found.line is not None
    assert "test_explanation.py:" in found.line
    assert found.line in str(found)


def test_causes_are_slugs():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[0].bias.requires_grad_(False)
    found = explain_grad(net, net[0](torch.ones(1, 2)).sum())
    assert found.kind == "module"
    assert found.tensor == "Sequential"
    assert [part.tensor for part in found.parts] == [name for name, _ in net.named_parameters()]
    assert [part.kind for part in found.parts] == ["waiting", "frozen", "unused", "unused"]
    assert {*found.causes} == {cause for part in found.parts for cause in part.causes}
    for cause in found.causes:
        assert cause == cause.lower()
        assert not {" ", ",", "_"} & set(cause)


def test_a_name_in_a_file_is_explained(tmp_path):
    w = torch.tensor(4.0, requires_grad=True)
    widget = GraphWidget(w**2)
    widget.backward()
    saved = load(save(widget, tmp_path / "run.gw"))
    assert explain_grad("w", saved).kind == "saved"
    assert explain_grad("w", saved) == explain_grad("w", widget)


def test_it_is_copied_and_pickled_whole():
    w = torch.tensor([4.0], requires_grad=True)
    found = explain_grad(w, w * 2)
    for again in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert again == found
        assert (again.kind, again.tensor) == (found.kind, found.tensor)


def test_it_is_made_by_explain_grad():
    with pytest.raises(TypeError, match="Call explain_grad"):
        Explanation("because")
