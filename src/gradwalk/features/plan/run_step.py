"""Run one training step on fake tensors, and record it."""

from __future__ import annotations

import contextlib
import copy
import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import nn
from torch.autograd.graph import Node
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from ...graph.adjacency import walk
from ...graph.names import Names, read_names
from ...graph.outputs import read_outputs
from ...torch_api.checkpoints import frame_of, inputs_of
from ...torch_api.fake_tensors import (
    DataSheet,
    data_dependent,
    fake_mode,
    fake_ranks,
    is_compiled_module,
    refuse_to_plan,
    swapped_tensors,
    tree_map,
)
from ...torch_api.modes import random_numbers_kept, unseen
from ...torch_api.nodes import op_name, sequence_nr
from ...torch_api.reading import key_of
from ...torch_api.saved_tensors import read_saved
from ...tracing.source_line import is_library, shown_file
from ...tracing.watch import watch
from .recorder import BACKWARD, STEP, Held, Recorder

_T = TypeVar("_T")


class Fakes:
    """Makes one fake tensor for each tensor; those that share memory share it again.

    Attributes:
        mode: The mode that the fake tensors belong to.
    """

    def __init__(self) -> None:
        self.mode = fake_mode()
        self._storages: dict[int, Any] = {}
        self._tensors: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the fake of a tensor, with a fake of its ``.grad``."""
        known = self._tensors.get(id(tensor))
        if known is not None:
            return known[1]
        if isinstance(tensor, (UninitializedParameter, UninitializedBuffer)):
            raise TypeError(
                "The model has a lazy module, whose parameters have no shape yet. Run it once on a "
                "small batch, and plan it then."
            )
        if tensor.layout is not torch.strided or hasattr(tensor, "__tensor_flatten__"):
            raise TypeError(
                f"The model or the batch has a {type(tensor).__name__} with layout "
                f"{tensor.layout}, and plan() copies dense tensors only. Give a dense one."
            )
        device = torch.device("cpu") if tensor.device.type == "meta" else tensor.device
        storage = tensor.untyped_storage()
        with self.mode, torch.no_grad():
            memory = self._storages.get(key_of(storage))
            if memory is None:
                memory = torch.empty(storage.nbytes(), dtype=torch.uint8, device=device)
                self._storages[key_of(storage)] = memory
            made = torch.empty(0, dtype=tensor.dtype, device=device).set_(
                memory.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride()
            )
            if isinstance(tensor, nn.Parameter):
                made = nn.Parameter(made, requires_grad=tensor.requires_grad)
            made.requires_grad_(tensor.requires_grad)
            if tensor.is_leaf and tensor.grad is not None:
                made.grad = self.of(tensor.grad)
        self._tensors[id(tensor)] = tensor, made
        return made

    def tree(self, values: _T) -> _T:
        """Return nested values with the fakes of their tensors."""
        mapped: _T = tree_map(lambda v: self.of(v) if isinstance(v, torch.Tensor) else v, values)
        return mapped

    def state(self, model: nn.Module) -> dict[str, torch.Tensor]:
        """Return the fakes of all parameters and buffers by name, tied ones under each name."""
        return {name: self.of(tensor) for name, tensor in _tensors(model)}

    def model(self, model: nn.Module) -> nn.Module:
        """Return a copy of a model whose tensors are fakes."""
        held = [value for module in model.modules() for value in vars(module).values()]
        tensors = [*held, *(tensor for _, tensor in _tensors(model))]
        memo = {id(each): self.of(each) for each in tensors if isinstance(each, torch.Tensor)}
        return copy.deepcopy(model, memo)


def _tensors(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from model.named_parameters(remove_duplicate=False)
    yield from model.named_buffers(remove_duplicate=False)


def build(model: nn.Module | Callable[[], nn.Module]) -> nn.Module:
    """Return a model, or the one that a function builds, on meta."""
    if isinstance(model, nn.Module):
        return model
    made: Any = None
    if callable(model):
        with torch.device("meta"):
            made = model()
    if not isinstance(made, nn.Module):
        kind = type(made if callable(model) else model).__name__
        raise TypeError(
            f"model was {'a function that returned' if callable(model) else 'given'} a {kind}. "
            "Give an nn.Module, on any device, or a function that builds one."
        )
    return made


@contextlib.contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """Return a context after which every module has the attributes that it had before."""
    kept = [
        (module, {k: dict(v) if type(v) is dict else v for k, v in vars(module).items()})
        for module in model.modules()
    ]
    before = [(module, dict(vars(module))) for module, _ in kept]
    try:
        yield
    finally:
        for (module, contents), (_, attributes) in zip(kept, before, strict=True):
            vars(module).clear()
            vars(module).update(attributes)
            for name, value in attributes.items():
                if type(value) is dict and value != contents[name]:
                    value.clear()
                    value.update(contents[name])


Patch = Callable[[nn.Module], contextlib.AbstractContextManager[Any]]
"""A change of the model for the time of a step."""


@dataclass(frozen=True)
class StepInputs:
    """The model, batch, loss and optimizer of a planned step."""

    model: nn.Module  # the model, with real, meta or fake tensors
    batch: Any  # its input: a tensor, a tuple of arguments, or a dict of keyword arguments
    # The function of the output, and of the batch; None if the model returns the loss.
    loss: Callable[..., Any] | None = None
    # Makes the optimizer of a list of parameters; None without one.
    optimizer: Callable[[list[nn.Parameter]], torch.optim.Optimizer] | None = None
    ranks: int | None = None  # the number of ranks; None for one process without a group
    shard: Callable[[nn.Module], Any] | None = None  # the function that shards a model in place
    patch: Patch | None = None  # how blocks are checkpointed
    device: DataSheet | None = None  # the rates that times are estimated from


@dataclass
class Recorded:
    """A recorded step."""

    recorder: Recorder  # its operations and storages
    forward_end: int = 0  # the number of operations of the forward pass
    # The id and the class of each autograd node in the graph by its sequence number.
    nodes: dict[int, tuple[int, str]] = field(default_factory=dict)
    # The storages that autograd kept at the end of the forward pass, parameters and inputs
    # included, with the sequence numbers of their nodes; none where a hook packed them.
    kept: list[tuple[Held, list[int]]] = field(default_factory=list)
    compiled: tuple[str, ...] = ()  # the names of compiled modules, which ran without the compiler
    has_cache: bool = False  # whether the model returned a cache of keys and values

    @property
    def keepers(self) -> list[tuple[Held, list[int]]]:
        """Those of `kept` that the forward pass made."""
        return [each for each in self.kept if not each[0].role]


def run_step(given: StepInputs) -> Recorded:
    """Run forward, backward and, with an optimizer, its step, without memory or kernels."""
    with _prepared(given) as (model, fakes):
        compiled = tuple(n for n, m in model.named_modules() if is_compiled_module(m))
        recorded = Recorded(Recorder(model.named_modules()), compiled=compiled)
        batch = fakes.tree(given.batch)
        eager = torch.compiler.set_stance("force_eager") if compiled else contextlib.nullcontext()
        with fakes.mode, eager:
            _run(model, batch, given, recorded)
    return recorded


@contextlib.contextmanager
def loss_on_fakes(given: StepInputs) -> Iterator[tuple[torch.Tensor, Names]]:
    """Return a context with the loss of a pass without memory, and names; backward runs in it."""
    with _prepared(given) as (model, fakes), fakes.mode:
        with watch():
            loss = loss_of(model, fakes.tree(given.batch), given.loss)
        yield loss, read_names(model, "plan")


@contextlib.contextmanager
def _prepared(given: StepInputs) -> Iterator[tuple[nn.Module, Fakes]]:
    """Return a context with the model, whose tensors are fake until it ends."""
    refuse_to_plan()
    fakes = Fakes()
    with contextlib.ExitStack() as stack:
        stack.enter_context(random_numbers_kept(()))
        model = given.model
        stack.enter_context(unchanged(model))
        try:
            if given.ranks is not None and given.shard is not None:
                stack.enter_context(fake_ranks(given.ranks))
                model = fakes.model(model)
                given.shard(model)  # outside of the mode, in which no mesh can be made
            else:
                stack.enter_context(swapped_tensors(model, fakes.state(model)))
            if given.patch is not None:
                stack.enter_context(given.patch(model))
            yield model, fakes
        except data_dependent() as error:
            raise RuntimeError(_data_dependent(error)) from error


def _run(model: nn.Module, batch: Any, given: StepInputs, recorded: Recorded) -> None:
    recorder = recorded.recorder
    parameters = [each for each in model.parameters() if each.requires_grad]
    optimizer = None if given.optimizer is None else _optimizer(given.optimizer, parameters)
    _note_known(recorder, model, batch, optimizer)

    def note_cache(_: nn.Module, __: object, output: Any) -> None:
        recorded.has_cache = getattr(output, "past_key_values", None) is not None

    with model.register_forward_hook(note_cache), recorder.recording():
        loss = loss_of(model, batch, given.loss)
        recorded.forward_end = len(recorder.operations)
        with unseen():
            _read_graph(loss, recorded)
        recorder.phase = BACKWARD
        loss.backward()  # type: ignore[no-untyped-call]
        with unseen():
            _note_gradients(recorder, model)
        if optimizer is not None:
            recorder.phase = STEP
            optimizer.step()


def _note_known(
    recorder: Recorder, model: nn.Module, batch: Any, optimizer: torch.optim.Optimizer | None
) -> None:
    """Count what is there before the step."""
    for name, parameter in model.named_parameters(remove_duplicate=False):
        recorder.note("parameter", name, parameter)
    _note_gradients(recorder, model)
    for name, buffer in model.named_buffers():
        recorder.note("buffer", name, buffer)
    for name, value in named_tensors(batch):
        recorder.note("input", name, value)
    states = optimizer.state.values() if optimizer is not None else ()
    for key, value in (item for state in states for item in state.items()):
        if isinstance(value, torch.Tensor):
            recorder.note("optimizer state", key, value)


def _note_gradients(recorder: Recorder, model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            recorder.note("gradient", name, parameter.grad)


def _optimizer(make: Callable[..., Any], parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """Make an optimizer with the state that it has after a first step."""
    optimizer = make(parameters)
    if not isinstance(optimizer, torch.optim.Optimizer):
        kind = type(optimizer).__name__
        raise TypeError(
            f"optimizer returned a {kind}. Give a class such as torch.optim.AdamW, or a function "
            "that makes an optimizer of a list of parameters."
        )
    before = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.empty_like(parameter)
    optimizer.step()
    for parameter, grad in zip(parameters, before, strict=True):
        parameter.grad = grad
    return optimizer


def loss_of(model: nn.Module, batch: Any, loss: Callable[..., Any] | None) -> torch.Tensor:
    """Run the model on a batch, and return the loss."""
    if isinstance(batch, dict):
        output = model(**batch)
    else:
        output = model(*batch) if isinstance(batch, tuple) else model(batch)
    if loss is not None:
        output = loss(output, batch) if _takes_batch(loss) else loss(output)
    elif not isinstance(output, torch.Tensor):
        output = getattr(output, "loss", None)
    source = "The model returned" if loss is None else "loss returned"
    if not isinstance(output, torch.Tensor):
        raise TypeError(
            f"{source} a {type(output).__name__}, not a loss. Give loss=, a function of the output "
            "and, if it takes two arguments, of the batch."
        )
    if output.numel() != 1 or not output.requires_grad:
        wrong = "does not require grad" if output.numel() == 1 else "has more than one number"
        needed = "one number that depends on parameters"
        do = f"backward() needs {needed}."
        if loss is None:
            do = f"Give loss=, a function of the output that returns {needed}."
        shape = tuple(output.shape)
        raise ValueError(f"{source} a tensor of shape {shape} that {wrong}. {do}")
    return output


def _takes_batch(loss: Callable[..., Any]) -> bool:
    try:
        inspect.signature(loss).bind(None)
    except TypeError:
        return True
    except ValueError:  # a builtin without a signature
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    taken = [p for p in inspect.signature(loss).parameters.values() if p.kind in kinds]
    return len(taken) > 1 and taken[1].default is inspect.Parameter.empty


def named_tensors(values: Any, name: str = "batch") -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors in nested values with the path that leads to each."""
    if isinstance(values, torch.Tensor):
        yield name, values
        return
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(values, dict):
        items = values.items()
    elif isinstance(values, (tuple, list)):
        items = enumerate(values)
    for key, value in items:
        yield from named_tensors(value, f"{name}[{key!r}]")


def _read_graph(loss: torch.Tensor, recorded: Recorded) -> None:
    """Number the nodes of the graph, and note which storages they keep."""
    kept = _Kept(recorded.recorder)
    root = read_outputs((loss,), "plan")[0].node

    def below(node: Node) -> Iterator[Node]:
        return (each for each, _ in node.next_functions if each is not None)

    for number, node in enumerate(walk([root], below)):  # in the order of capture()
        recorded.nodes.setdefault(sequence_nr(node), (number, op_name(node)))
        kept.add_node(node)
    kept.add_packed(loss)
    recorded.kept = list(kept.found.values())


class _Kept:
    """The storages that autograd keeps.

    Attributes:
        found: Each storage by its id, with the sequence numbers of the nodes that keep it.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.found: dict[int, tuple[Held, list[int]]] = {}
        self._recorder = recorder
        self._frames: dict[int, Any] = {}
        self._is_packed = False

    def add_node(self, node: Node) -> None:
        for saved in read_saved(node):
            if isinstance(saved.value, torch.Tensor):
                self._add(self._recorder.of(saved.value), [sequence_nr(node)])
            elif saved.value is None and saved.note is not None:
                self._is_packed = True
        frame = frame_of(node)
        if frame is not None:
            self._frames[id(frame)] = frame

    def add_packed(self, loss: torch.Tensor) -> None:
        """Add what checkpoints keep of their inputs, and what other hooks packed."""
        for frame in self._frames.values():
            for tensor in inputs_of(frame):
                self._add(self._recorder.of(tensor), [])
        if self._is_packed:
            # The packed object of a hook, such as a copy, outlives the forward pass.
            own = self._recorder.of(loss)
            alive = (held for held in self._recorder.held if held.died is None)
            self._add((held for held in alive if held not in own), [])

    def _add(self, storages: Iterable[Held], keepers: list[int]) -> None:
        for held in storages:
            self.found.setdefault(id(held), (held, []))[1].extend(keepers)


def _data_dependent(error: Exception) -> str:
    """Say which line needs values, and what to do."""
    lines = traceback.extract_tb(error.__traceback__)
    own = [line for line in lines if not is_library(line.filename)]
    place = f"{shown_file(own[-1].filename)}:{own[-1].lineno}" if own else "A line of torch"
    text = f" ({own[-1].line})" if own and own[-1].line else ""
    operation = getattr(error, "func", None) or "an operation"
    return (
        f"{place}{text} needs the values of a tensor for {operation}, and a plan has none. Replace "
        "it by an operation whose result has a fixed shape, or plan the modules around it."
    )
