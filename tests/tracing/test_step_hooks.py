"""The hooks of a watched block on the steps of optimizers."""

from __future__ import annotations

import sys

import torch

from gradwalk import watch


def test_a_block_may_begin_and_end_within_a_step():
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)
    open_block = watch()
    ran = []

    def whole(*_):
        with watch():
            ran.append("whole")

    def ends(*_):
        open_block.__exit__(None, None, None)
        ran.append("ended")

    optimizer.register_step_pre_hook(whole)
    optimizer.register_step_post_hook(ends)
    open_block.__enter__()
    w.sum().backward()
    optimizer.step()
    assert ran == ["whole", "ended"]
    with watch():
        pass
    assert not sys.modules["torch.optim.optimizer"]._global_optimizer_post_hooks
    assert torch.equal(w, torch.full((2,), 0.5))
