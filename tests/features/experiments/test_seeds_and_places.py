"""What an experiment starts from, and what it calls the tensors it answers for."""

from __future__ import annotations

import pytest
import torch

from gradwalk import GraphWidget, contributions, record, what_if


@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize("given", [torch.tensor(10.0), torch.tensor([1.0, -2.0])])
def test_it_starts_from_the_gradient_of_the_recording(given, hooked):
    w = torch.ones_like(given).requires_grad_()
    if hooked:
        w.register_hook(lambda grad: grad * 1)
    recording = record(w * 3, gradient=given)
    assert torch.equal(what_if(recording, cut=[]).before["w"], w.grad)
    w.grad = None
    widget = GraphWidget(w * 3)
    widget.backward(gradient=given)
    widget.edits = [{"kind": "scale", "edge": "w", "value": 1.0}]
    assert [each["name"] for each in widget.effect["leaves"]] == ["w"]


def test_each_output_of_a_node_has_an_answer():
    x = torch.arange(6.0).reshape(3, 2).requires_grad_()
    parts = list((x * 1).unbind(0))
    loss = sum((i + 1) * part.sum() for i, part in enumerate(parts))
    found = what_if(loss, cut=[], inputs=parts)
    assert [each.tolist() for each in found.before.values()] == [[1, 1], [2, 2], [3, 3]]


def test_it_works_in_inference_mode():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    loss = (w * 2).sum()
    with torch.inference_mode():
        assert torch.equal(what_if(loss, scale={w: 2}).after["w"], torch.tensor([4.0, 4.0]))
        assert len(contributions(w, loss)) == 1


def test_rows_of_a_penalty_and_of_data_are_not_mixed():
    w = torch.randn(4, requires_grad=True)
    x, y = torch.randn(6, 4), torch.randn(6)
    loss = ((x @ w - y) ** 2).mean() + 0.1 * (w**2).sum()
    with pytest.raises(ValueError, match="4, 6 rows in different places"):
        contributions(w, loss, by="sample")
