"""Hooks on every module that come back under the same number."""

from __future__ import annotations

import pytest
from torch import nn
from torch.nn.modules import module as modules

from gradwalk.torch_api.module_hooks import ModuleHooks


def hooked():
    found = (modules._global_forward_pre_hooks, modules._global_forward_hooks)
    return [*map(dict, found), dict(modules._global_forward_hooks_always_called)]


class Fails(nn.Module):
    def forward(self):
        raise ValueError


def test_they_are_called_only_while_they_are_on():
    seen, without = [], hooked()
    hooks = ModuleHooks(lambda *_: seen.append("before"), lambda *_: seen.append("after"))
    with_hooks = []
    for _ in range(2):
        hooks.switch_on()
        with_hooks.append(hooked())
        with pytest.raises(ValueError, match=r"^$"):
            Fails()()
        hooks.switch_off()
        assert hooked() == without
        with pytest.raises(ValueError, match=r"^$"):
            Fails()()
    assert seen == ["before", "after"] * 2
    assert with_hooks[0] == with_hooks[1]
