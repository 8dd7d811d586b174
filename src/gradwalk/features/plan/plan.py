"""`plan`: the memory and the work of a training step, without weights."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import nn

from ...amounts import Bytes, Flops, read_bytes
from ...graph.arguments import read_int
from ...result import make, returned_by
from ...torch_api.fake_tensors import DataSheet, data_sheet
from ...torch_api.modes import unseen
from ...types import Optimizer
from ...widget.graph_widget import GraphWidget
from .advice import Advice, advise, checkpointed
from .copies import build
from .module_plans import ModulePlan, ModulePlans, plan_table
from .optimizers import check_optimizer
from .picture import widget_of
from .recorder import BACKWARD, FORWARD, Held, Operation
from .run_step import Recorded, StepInputs, run_step

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

NOT_COUNTED = (
    "Not counted: the context of CUDA, allocator rounding, NCCL and cuBLAS workspaces, and kernels "
    "that a GPU would choose instead."
)
"""Amounts that a plan does not count; it lists them beside its numbers."""


@returned_by("plan(...).place(index)")
@dataclass(frozen=True)
class Place:
    """Where in the step something happens or was made.

    Attributes:
        phase: "forward", "backward" or "optimizer step".
        operation: torch's operation, "aten.mm".
        op: The class of the autograd node, "MmBackward0", that it made or that runs it; else None.
        node: The node's id in the graph that the plan shows; None where it has none.
        module: The module's name; "" outside of all submodules.
        source: The line of the forward pass, "train.py:12"; None if unknown.
        index: The index of the operation, as in ``curve`` of the plan.
    """

    phase: str
    operation: str
    op: str | None
    node: int | None
    module: str
    source: str | None
    index: int

    def __str__(self) -> str:
        parts = [self.op or self.operation]
        parts += [f"(node {self.node})"] if self.node is not None else []
        parts += [f"in {self.module}"] if self.module else []
        parts += [f"at {self.source}"] if self.source else []
        return f"{' '.join(parts)}, {self.phase}"


@returned_by("plan(...).tensors()")
@dataclass(frozen=True)
class HeldTensor:
    """A piece of memory that is live at the peak.

    Attributes:
        bytes: Its size.
        role: "parameter", "buffer", "input", "gradient", "optimizer state", "saved" or "temporary".
        name: The name of a parameter, buffer or input; "" for others.
        shape: The shape of the first tensor on it.
        dtype: Its dtype, "float32".
        made: The place of the operation that made it; None if it was there before the step.
        copy_of: The dtype of another tensor of the same numbers that is held, too; None without.
    """

    bytes: Bytes
    role: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    made: Place | None
    copy_of: str | None

    @property
    def node(self) -> int | None:
        """The id of the autograd node that made it."""
        return None if self.made is None else self.made.node

    @property
    def module(self) -> str:
        """The module that made it or has it."""
        return self.name.rpartition(".")[0] if self.made is None else self.made.module

    @property
    def source(self) -> str | None:
        """The line that made it."""
        return None if self.made is None else self.made.source

    def __str__(self) -> str:
        name = self.name or (self.made.op or self.made.operation if self.made else "")
        place = "" if self.made is None else f" in {self.module}" * bool(self.module)
        line = f" at {self.source}" if self.source else ""
        same = f", also kept as {self.copy_of}" if self.copy_of else ""
        return f"{self.bytes} {self.role} {name} {self.dtype}{list(self.shape)}{place}{line}{same}"


@returned_by("plan(model, batch)")
class Plan:
    """The memory and the work of one training step.

    Amounts of memory are whole bytes; ``str()`` gives them a unit.

    Attributes:
        peak: The most bytes live at once: parameters, buffers, inputs, gradients, saved tensors,
            temporaries, and optimizer state if an optimizer was given.
        at: The operation at the peak, a `Place`.
        parameters: Bytes of parameters.
        buffers: Bytes of buffers.
        inputs: Bytes of the batch.
        gradients: Bytes of the parameters' gradients.
        optimizer_state: Bytes of optimizer state; 0 without an optimizer.
        saved: Bytes that autograd keeps at the end of the forward pass, apart from parameters,
            buffers and inputs; each storage counts once.
        flops: Floating-point operations of forward and backward.
        flops_forward: Those of forward.
        flops_backward: Those of backward, recomputation included.
        device: The accelerator that times are estimated for; None without one.
        estimated_seconds: Estimated time of forward and backward on it, each operation as long as
            its floating-point operations or its memory traffic take at the peak rates of the
            device; None without a device.
        curve: Live bytes after each operation.
        forward_end: How many operations of the curve are the forward pass.
        modules: The amounts of each module, a `ModulePlan` each, by the module's name.
        ranks: The number of ranks, for a plan of one rank of them; else None.
        compiled: The names of compiled modules, which were planned as if they were not compiled.
        not_counted: The amounts that are not in these numbers.
        lower_bound: Memory that the peak lacks, because its size is not known; empty if none.
        assumptions: The values that the step asked for and that were assumed, a sentence each.
        measured: Whether the step ran once on real copies, because it needs their values.
        remarks: Sentences about the numbers: the lower bound, the real step and the assumptions.
        widget: The picture of the step's graph, with the memory curve below it.
    """

    def __init__(self, given: StepInputs, recorded: Recorded) -> None:
        """Add up a recorded step; `plan` makes plans."""
        self._given = replace(given, is_real=recorded.is_real, flipped=recorded.flipped)
        self._recorded = recorded
        self._advised: tuple[str, ...] = ()
        operations = recorded.recorder.operations
        self.curve = [each.live for each in operations]
        self.forward_end = recorded.forward_end
        index = max(range(len(self.curve)), key=self.curve.__getitem__)
        self.peak = Bytes(self.curve[index])
        self.at = self.place(index)
        self.parameters = self._total("parameter")
        self.buffers = self._total("buffer")
        self.inputs = self._total("input")
        self.gradients = self._total("gradient")
        self.optimizer_state = self._total("optimizer state")
        end = self.forward_end - 1
        self.saved = Bytes(sum(held.bytes_at(end) for held, _ in recorded.keepers))
        self.flops_forward = Flops(sum(o.flops for o in operations if o.phase == FORWARD))
        self.flops_backward = Flops(sum(o.flops for o in operations if o.phase == BACKWARD))
        self.flops = Flops(self.flops_forward + self.flops_backward)
        sheet = given.device
        self.device = None if sheet is None else sheet.name
        seconds = None if sheet is None else [_least_seconds(each, sheet) for each in operations]
        self._seconds = seconds
        self.ranks = given.ranks
        self.compiled = recorded.compiled
        self.not_counted = NOT_COUNTED
        self.lower_bound = recorded.not_counted
        self.assumptions = recorded.assumptions
        self.measured = recorded.is_real
        self.remarks = _remarks(recorded)
        self.modules: Mapping[str, ModulePlan] = ModulePlans(
            given.model, recorded, self.at.index, seconds
        )
        self.estimated_seconds = self.modules[""].estimated_seconds

    def tensors(self, limit: int | None = 20) -> list[HeldTensor]:
        """List the memory that is live at the peak, largest first.

        Args:
            limit (int | None, optional): The most entries; None for all. Default: ``20``.

        Returns:
            One entry per storage.

        Raises:
            TypeError: ``limit`` is not a whole number.

        Example::

            >>> import torch
            >>> from torch import nn
            >>> from gradwalk import plan
            >>> found = plan(nn.Linear(8, 4), torch.ones(2, 8), loss=torch.sum)
            >>> found.tensors(limit=1)[0].name
            'weight'
        """
        if limit is not None:
            limit = read_int(limit, "limit was given ", "Give a number of tensors, or None.")
        at = self.at.index
        held = [each for each in self._recorded.recorder.held if each.bytes_at(at)]
        held.sort(key=lambda each: -each.bytes_at(at))
        saved = {id(each) for each, _ in self._recorded.keepers}
        twice = {id(each.copy_of): each for each in held if each.copy_of is not None}
        return [self._held_tensor(each, id(each) in saved, twice) for each in held[:limit]]

    def advise(self, budget: int | str) -> Advice:
        """Choose the blocks to checkpoint so that the step fits a budget.

        The next picture of this plan marks them with ↻.

        Args:
            budget (int | str): Bytes, or a text such as "40GB" or "80 GiB".

        Returns:
            The blocks, the predicted peak, the extra work and the code.

        Raises:
            TypeError: ``budget`` is neither a number nor a text.
            ValueError: It is not positive.

        Example::

            >>> import torch
            >>> from torch import nn
            >>> from gradwalk import plan
            >>> blocks = [nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(4)]
            >>> found = plan(nn.Sequential(*blocks), torch.ones(999, 64), loss=torch.sum)
            >>> found.advise("2 MB").blocks
            ()
        """
        with unseen():  # a mode of the user, such as FakeTensorMode, would see its tensors
            advice = advise(self._given.model, self._recorded, read_bytes(budget), budget)
        if advice.blocks != self._advised:
            self._advised = advice.blocks
            vars(self).pop("widget", None)
        return advice

    def apply(self, advice: Advice) -> Plan:
        """Plan the step again, with the advised blocks checkpointed.

        Args:
            advice (Advice): The result of `advise`.

        Returns:
            The new plan.

        Raises:
            Exception: The error of the step, if it fails with checkpoints.

        Example::

            >>> import torch
            >>> from torch import nn
            >>> from gradwalk import plan
            >>> found = plan(nn.Linear(8, 4), torch.ones(2, 8), loss=torch.sum)
            >>> found.apply(found.advise(budget="1 GiB")).peak == found.peak
            True
        """
        given = replace(self._given, patch=partial(checkpointed, advice.blocks))
        return make(Plan, given, run_step(given))

    @cached_property
    def widget(self) -> GraphWidget:
        """The picture of the step's graph, with the memory curve below it.

        Colours show saved bytes, FLOPs or the estimated time. A cell that ends with the plan shows
        the same picture.

        Example::

            >>> plan(nn.Linear(8, 4), torch.ones(2, 8), loss=torch.sum).widget
            GraphWidget(5 nodes, 4 edges, 2 leaves)
        """
        return widget_of(self, self._given, self._recorded, self._seconds, self._advised)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return self.widget._repr_mimebundle_(**options)

    @overload
    def to_html(self, path: None = None) -> str: ...
    @overload
    def to_html(self, path: str | os.PathLike[str]) -> Path: ...
    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | Path:
        """Write the picture as an interactive page that works offline.

        Args:
            path (str | os.PathLike[str], optional): The file to write; None, the default, for no
                file.

        Returns:
            The text of the page; with a path, the path.

        Raises:
            OSError: The file cannot be written.

        Example::

            >>> import torch
            >>> from torch import nn
            >>> from gradwalk import plan
            >>> page = plan(nn.Linear(8, 4), torch.ones(2, 8), loss=torch.sum).to_html()
            >>> page[:15]
            '<!doctype html>'
        """
        return self.widget.to_html(path)

    def to_dataframe(self) -> pd.DataFrame:
        """Return the amounts of each module as a pandas table.

        Returns:
            A ``pandas.DataFrame`` with a row per module, indexed by its name.

        Raises:
            ImportError: pandas is not installed.

        Example::

            >>> import torch
            >>> from torch import nn
            >>> from gradwalk import plan
            >>> found = plan(nn.Linear(8, 4), torch.ones(2, 8), loss=torch.sum)
            >>> table = found.to_dataframe()  # doctest: +SKIP
        """
        try:
            import pandas  # noqa: PLC0415
        except ImportError:
            raise ImportError("to_dataframe() needs pandas: pip install pandas.") from None
        names = [each.name for each in fields(ModulePlan)]
        rows = [[getattr(each, name) for name in names] for each in self.modules.values()]
        return pandas.DataFrame(rows, columns=names).set_index("name")

    def __str__(self) -> str:
        return plan_table(self)

    def __repr__(self) -> str:
        return f"Plan(peak {'at least ' * bool(self.lower_bound)}{self.peak} at {self.at})"

    def _total(self, role: str) -> Bytes:
        return Bytes(sum(each.bytes for each in self._recorded.recorder.held if each.role == role))

    def place(self, index: int) -> Place:
        """Return the place of an operation.

        Args:
            index (int): Its index in ``curve``.

        Returns:
            The phase, operation, node, module and line.

        Raises:
            IndexError: There are not so many operations.

        Example::

            >>> import torch
            >>> from torch import nn
            >>> from gradwalk import plan
            >>> found = plan(nn.Linear(8, 4), torch.ones(2, 8), loss=torch.sum)
            >>> found.place(0).phase
            'forward'
        """
        found = self._recorded.recorder.operations[index]
        number = -1 if found.sequence_nr is None else found.sequence_nr
        node, op = self._recorded.nodes.get(number, (None, None))
        line = None if found.source is None else str(found.source)
        where = found.phase, found.name, found.node or op
        return make(Place, *where, node, found.module, line, index)

    def _held_tensor(self, held: Held, is_saved: bool, twice: dict[int, Held]) -> HeldTensor:
        at = self.at.index
        same = held.copy_of if held.copy_of and held.copy_of.bytes_at(at) else twice.get(id(held))
        dtypes = [str(each.dtype).removeprefix("torch.") if each else None for each in (held, same)]
        role = held.role or ("saved" if is_saved else "temporary")
        made = self.place(held.born) if held.born >= 0 else None
        what = Bytes(held.bytes_at(at)), role, held.name, held.shape
        return make(HeldTensor, *what, dtypes[0] or "", made, dtypes[1])


def _remarks(recorded: Recorded) -> tuple[str, ...]:
    found = [f"Lower bound: {each} is not counted." for each in recorded.not_counted]
    if recorded.is_real:
        found.append(f"Measured by one real step on copies. {recorded.reason}".strip())
    return (*found, *(f"Assumed: {each}" for each in recorded.assumptions))


def _least_seconds(operation: Operation, sheet: DataSheet) -> float:
    """Return the time of an operation's work or memory traffic at the peak rates of a device."""
    rate = sheet.flops.get(operation.dtype) if operation.dtype is not None else None
    return max(operation.flops / rate if rate else 0.0, operation.moved / sheet.bandwidth)


def plan(
    model: nn.Module | Callable[[], nn.Module],
    batch: torch.Tensor | tuple[object, ...] | Mapping[str, object],
    *,
    loss: Callable[..., torch.Tensor] | None = None,
    optimizer: Optimizer | None = None,
    ranks: int | None = None,
    shard: Callable[[nn.Module], object] | None = None,
    device: str | None = None,
) -> Plan:
    """Plan one training step: its peak memory and FLOPs, without weights and without computing.

    The step runs forward, backward and, with an optimizer, its step on tensors that have shapes
    and no memory. Only the loss is kept while backward runs. The model, its gradients and the
    random state do not change.

    A step that depends on values runs once on real copies, if the tensors have values and it takes
    less than half of the free memory. ``remarks`` of the plan says so, and what was assumed.

    The kernels are for the device of the model's tensors; a model on meta is planned for the CPU,
    whose attention keeps as much as a GPU's flash attention.

    Args:
        model (nn.Module | Callable[[], nn.Module]): The model, on any device, also on meta; or a
            function that builds it, which runs with ``torch.device("meta")``.
        batch (torch.Tensor | tuple[object, ...] | Mapping[str, object]): The input: a tensor, a
            tuple of positional arguments, or a dict of keyword arguments. Only small
            integers and booleans are read, so tensors on meta do for most models.
        loss (Callable[..., torch.Tensor], optional): A function of the output and, if it takes two
            arguments, of the batch. None if the model returns the loss, or an object with an
            attribute ``loss``.
        optimizer (Optimizer, optional): A class such as ``torch.optim.AdamW``, its name, an
            instance for the model's parameters, or a function that makes an optimizer of a list of
            parameters. The plan is of a later step, whose optimizer has its state already. None
            plans forward and backward only.
        ranks (int, optional): The number of ranks of a distributed run; the plan is of one of them.
            This process must not be in a process group. None for one process.
        shard (Callable[[nn.Module], object], optional): A function that shards the model in place,
            such as one that calls ``fully_shard``. It gets a copy of the model, in a process group
            without communication. None for one process.
        device (str, optional): An accelerator whose data sheet torch knows, such as "NVIDIA H100",
            to estimate times for. Times are lower bounds: an operation takes as long as its work or
            its memory traffic at peak rates. Communication does not count. None for no times.

    Returns:
        The plan.

    Raises:
        RuntimeError: The step fails; the message names the line and the module. Or this process is
            in a process group.
        TypeError: An argument is of the wrong kind.
        ValueError: The loss does not require grad or has more than one number, only one of
            ``ranks`` and ``shard`` was given, or the rates of ``device`` are not known.

    Example::

        >>> import torch
        >>> from torch import nn
        >>> from gradwalk import plan
        >>> found = plan(nn.Linear(1000, 1000), torch.ones(64, 1000), loss=torch.sum)
        >>> print(found.parameters, found.saved, found.flops)
        3.82 MiB 0 B 256 MFLOP
    """
    if ranks is not None:
        ranks = read_int(ranks, "ranks was given ", "Give the number of ranks, such as 64.")
        if ranks < 1:
            raise ValueError(f"ranks was given {ranks}. Give a number from 1.")
    if (ranks is None) != (shard is None):
        raise ValueError(
            "plan() was given only one of ranks and shard. Give both: the number of ranks and the "
            "function that shards the model."
        )
    check_optimizer(optimizer)
    sheet = None if device is None else data_sheet(device)
    builder = None if isinstance(model, nn.Module) else model
    given = StepInputs(
        build(model), batch, loss, optimizer, ranks, shard, device=sheet, builder=builder
    )
    return make(Plan, given, run_step(given))
