"""Hooks on every module that can be switched on and off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook


class ModuleHooks:
    """A hook before the forward of every module, and perhaps one after it.

    They keep their numbers. ``torch.compile`` compares these, and would compile a program again.
    """

    def __init__(
        self, before: Callable[[Any, Any], None], after: Callable[[Any, Any, Any], None] | None
    ) -> None:
        """Store the hooks; ``after`` is also called when the module raises."""
        self._before, self._after = before, after
        self._handles: list[tuple[Any, Callable[..., None]]] = []

    def switch_on(self) -> None:
        """Let torch call the hooks."""
        if not self._handles:
            self._handles = [(register_module_forward_pre_hook(self._before), self._before)]
            if self._after is not None:
                after = register_module_forward_hook(self._after, always_call=True)
                self._handles.append((after, self._after))
            return
        for handle, hook in self._handles:
            handle.hooks_dict_ref()[handle.id] = hook
            for reference in handle.extra_dict_ref:
                reference()[handle.id] = True  # it is always called

    def switch_off(self) -> None:
        """Take the hooks away."""
        for handle, _ in self._handles:
            handle.remove()
