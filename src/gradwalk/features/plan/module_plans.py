"""The amounts of each module of a planned step."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from ...amounts import Bytes, Flops
from ...english import nearest
from ...result import make, returned_by
from .recorder import BACKWARD, FORWARD, Held
from .run_step import Recorded


@returned_by("plan(model, batch)")
@dataclass(frozen=True)
class ModulePlan:
    """The amounts of one module, with everything inside it.

    Attributes:
        name: Its name, as in ``named_modules()``.
        kind: Its class.
        parameters: Bytes of parameters; a shared one counts in the module that has it first.
        saved: Bytes that its operations keep at the end of the forward pass.
        at_peak: Bytes made in it that are live at the peak, its parameters included.
        flops_forward: Floating-point operations of its forward pass.
        flops_backward: Those of its backward pass, recomputation included.
        estimated_seconds: Estimated time of both; None without a device.
    """

    name: str
    kind: str
    parameters: Bytes
    saved: Bytes
    at_peak: Bytes
    flops_forward: Flops
    flops_backward: Flops
    estimated_seconds: float | None = None


class ModulePlans(Mapping[str, ModulePlan]):
    """The amounts of each module by its name; "model.layers.3" finds "layers.3", too."""

    def __init__(
        self, model: nn.Module, recorded: Recorded, peak: int, seconds: Sequence[float] | None
    ) -> None:
        """Add up a step by module; ``peak``: an operation, ``seconds``: None without a device."""
        amounts = _Sums(recorded, peak, seconds or ()).amounts
        self._modules = {}
        for name, module in model.named_modules():
            held = [Bytes(amounts[what][name]) for what in ("parameters", "saved", "at_peak")]
            work = [Flops(amounts[what][name]) for what in (FORWARD, BACKWARD)]
            time = None if seconds is None else float(amounts["seconds"][name])
            of: tuple[Any, ...] = (name, type(module).__name__, *held, *work, time)
            self._modules[name] = make(ModulePlan, *of)

    def __getitem__(self, name: str) -> ModulePlan:
        found = self._modules.get(name)
        if found is None and name.partition(".")[0] == "model":
            found = self._modules.get(name.partition(".")[2])
        if found is None:
            close = nearest(name, self._modules)
            raise KeyError(f"The model has no module {name!r}. {close or ''}".rstrip())
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


class _Sums:
    """Adds amounts to a module and to all that it is in.

    Attributes:
        amounts: Kind of amount -> module -> amount.
    """

    def __init__(self, recorded: Recorded, peak: int, seconds: Sequence[float]) -> None:
        self.amounts: dict[str, dict[str, Any]] = defaultdict(Counter)
        self._recorder = recorded.recorder
        for held in self._recorder.held:
            owner = self._owner(held)
            if held.role == "parameter":
                self._add("parameters", owner, held.bytes)
            self._add("at_peak", owner, held.bytes_at(peak))
        for held, keepers in recorded.keepers:
            first = self._recorder.module_of(min(keepers)) if keepers else None
            module = self._owner(held) if first is None else first
            self._add("saved", module, held.bytes_at(recorded.forward_end - 1))
        for each in self._recorder.operations:
            self._add(each.phase, each.module, each.flops)
        for each, time in zip(self._recorder.operations, seconds, strict=False):
            if each.phase in (FORWARD, BACKWARD):
                self._add("seconds", each.module, time)

    def _owner(self, held: Held) -> str:
        if held.role in ("parameter", "buffer"):
            return held.name.rpartition(".")[0]
        return self._recorder.operations[held.born].module if held.born >= 0 else ""

    def _add(self, what: str, module: str, amount: float) -> None:
        while amount:
            self.amounts[what][module] += amount
            if not module:
                return
            module = module.rpartition(".")[0]
