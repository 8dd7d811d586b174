"""Tracebacks of watched programs as they are without the watch."""

from __future__ import annotations

from types import TracebackType

_WATCH = "gradwalk.tracing.watch"
_IMPORT = "gradwalk.hosts.torch_import"
_HOOKED_MODULE = "torch.nn.modules.module", "inner"
"""Where torch calls a module's forward if there are hooks, as there are while `watch` is on."""


def without_watch(error: BaseException) -> None:
    """Remove the frames that the watch added to an exception, and to those that led to it."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = _shortened(each.__traceback__)
            waiting += [each.__cause__, each.__context__]


def _shortened(traceback: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    is_ours = False  # the entry before this one
    while traceback is not None:
        code = traceback.tb_frame.f_code
        module = str(traceback.tb_frame.f_globals.get("__name__"))
        # torch's functions in Python call the mode, and the mode calls them again.
        if is_ours and len(kept) > 1 and kept[-2].tb_frame.f_code is code:
            del kept[-2:]
        if module == _IMPORT:  # Python removes its own frames only if nothing is between them
            while kept and kept[-1].tb_frame.f_code.co_filename.startswith("<frozen importlib"):
                kept.pop()
        is_ours = module in (_WATCH, _IMPORT) or (is_ours and module.startswith("gradwalk."))
        if not is_ours and (module, code.co_name) != _HOOKED_MODULE:
            kept.append(traceback)
        traceback = traceback.tb_next
    shortened = None
    for each in reversed(kept):
        shortened = TracebackType(shortened, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return shortened
