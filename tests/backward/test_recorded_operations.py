"""The operations of a custom backward, as a recorded pass notes them."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from gradwalk import record, watch


class Doubling(torch.autograd.Function):
    @staticmethod
    def forward(ctx, one, other):
        return one + other

    @staticmethod
    def backward(ctx, grad):
        return grad, grad * 2


@pytest.mark.parametrize("rows", [3, 100_000])
def test_a_sparse_result_is_recorded_whole(rows):
    with watch():
        a, b = (torch.rand(rows, 3, requires_grad=True) for _ in "ab")
        table = Doubling.apply(a, b)
        found = F.embedding_bag(torch.tensor([1, 2, 1]), table, torch.tensor([0, 2]), sparse=True)
    recording = record(found.sum())
    (node,) = recording._pass.run.operations
    recorded = recording._pass.run.operations[node]
    assert recorded.note is None
    assert [operation.name for operation in recorded.listed] == ["aten.mul.Tensor"]
    assert [recorded.returned[nr].kind for nr in (0, 1)] == ["gradient", "operation"]
    assert torch.equal(b.grad.to_dense(), 2 * a.grad.to_dense())
