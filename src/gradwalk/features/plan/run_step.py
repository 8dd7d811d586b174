"""Run one training step, on fake tensors or on real copies, and record it."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import Node

from ...graph.adjacency import walk
from ...graph.names import Names, read_names
from ...graph.outputs import read_outputs
from ...hosts.progress import progress
from ...torch_api.checkpoints import frame_of, inputs_of
from ...torch_api.fake_tensors import (
    DataSheet,
    data_dependent,
    fake_ranks,
    handling_mode,
    is_compiled_module,
    refuse_to_plan,
    swapped_tensors,
    taken_as_real,
    tensors_in,
)
from ...torch_api.modes import unseen
from ...torch_api.nodes import leaf_tensor, op_name, sequence_nr
from ...torch_api.reading import has_data
from ...torch_api.saved_tensors import read_saved
from ...tracing.watch import watch
from .copies import Copies, Fakes, built_really, random_state_kept, unchanged
from .errors import StepError, failed, is_of_plan, of_plan
from .foreign import ForeignTensors
from .optimizers import make_optimizer, step_optimizer
from .real_memory import free_bytes
from .recorder import BACKWARD, STEP, Held, Recorder

Patch = Callable[[nn.Module], contextlib.AbstractContextManager[Any]]
"""A change of the model for the time of a step."""


@dataclass(frozen=True)
class StepInputs:
    """The model, batch, loss and optimizer of a planned step."""

    model: nn.Module  # the model, with real, meta or fake tensors
    batch: Any  # its input: a tensor, a tuple of arguments, or a dict of keyword arguments
    # The function of the output, and of the batch; None if the model returns the loss.
    loss: Callable[..., Any] | None = None
    # Makes the optimizer of a list of parameters, or is one, or its name; None without one.
    optimizer: Any = None
    ranks: int | None = None  # the number of ranks; None for one process without a group
    shard: Callable[[nn.Module], Any] | None = None  # the function that shards a model in place
    patch: Patch | None = None  # how blocks are checkpointed
    device: DataSheet | None = None  # the rates that times are estimated from
    builder: Callable[[], nn.Module] | None = None  # the function that built the model on meta
    is_real: bool = False  # whether the step runs on real copies
    flipped: tuple[int, ...] = ()  # the numbers of the assumptions that are the opposite


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
    assumptions: tuple[str, ...] = ()  # the values that were assumed, as sentences
    not_counted: tuple[str, ...] = ()  # what the sizes lack, as the starts of sentences
    is_real: bool = False  # whether the step ran on real copies
    reason: str = ""  # why it did, as a sentence
    flipped: tuple[int, ...] = ()  # see `StepInputs`
    is_blind: bool = False  # whether nothing speaks for one of the assumptions

    @property
    def keepers(self) -> list[tuple[Held, list[int]]]:
        """Those of `kept` that the forward pass made."""
        return [each for each in self.kept if not each[0].role]


_MOST_FLIPS = 3
_FAILS_ANYWAY = "It fails in the same way on real tensors, without plan()."
_WITH_VALUES = (
    "Give the model and the batch with values, so that plan() can run one real step, or plan the "
    "modules around it."
)
_TOO_LARGE = (
    "A real step does not fit in the memory that is free here. Plan a smaller batch, or the "
    "modules around it."
)
_ONE_PROCESS = "Plan it without ranks=, or plan the modules around it."


def run_step(given: StepInputs) -> Recorded:
    """Run forward, backward and, with an optimizer, its step, without memory or kernels.

    A step that needs values runs once on real copies, if the tensors have values and it fits.
    """
    if given.is_real:
        return _recorded(given)
    try:
        return _measured_if_cheap(given, _recorded(given))
    except StepError as error:
        first = error
    if not isinstance(first.error, data_dependent()):
        for number in range(first.answers - 1, max(-1, first.answers - 1 - _MOST_FLIPS), -1):
            with contextlib.suppress(StepError):
                return _recorded(replace(given, flipped=(*given.flipped, number)))
    do = _why_not_real(given)
    if do is None:
        try:
            recorded = _recorded(replace(given, is_real=True))
            recorded.reason = str(first)
        except _TooLargeError:
            do = _TOO_LARGE
        except StepError as error:
            raise StepError(error.where, error.error, _FAILS_ANYWAY) from error.error
        else:
            return recorded
    raise StepError(first.where, first.error, do) from first.error


_FEW_FLOPS = 10**11


def _measured_if_cheap(given: StepInputs, recorded: Recorded) -> Recorded:
    """Return a step with assumptions; a real one, if it is short and a reason for them lacks."""
    operations = recorded.recorder.operations
    is_cheap = sum(each.flops for each in operations) <= _FEW_FLOPS
    is_planned = given.patch is not None  # again, with checkpoints
    if not recorded.is_blind or is_planned or not is_cheap or _why_not_real(given) is not None:
        return recorded
    try:
        measured = _recorded(replace(given, is_real=True))
    except StepError:
        return recorded
    measured.reason = recorded.assumptions[0].partition(", which is taken as")[0] + "."
    return measured


def _why_not_real(given: StepInputs) -> str | None:
    """Say what to do where the step cannot run on real copies; None where it can."""
    if given.ranks is not None:
        return _ONE_PROCESS
    tensors = [*given.model.parameters(), *given.model.buffers()]
    if given.builder is not None:
        size = sum(each.numel() * each.element_size() for each in tensors)
        tensors = []
    else:
        size = 0
    tensors += [each for _, each in named_tensors(given.batch)]
    if not all(map(has_data, tensors)):
        return _WITH_VALUES
    size += sum(each.numel() * each.element_size() for each in tensors)
    return _TOO_LARGE if 2 * size > _most_bytes(tensors) else None


def _most_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Return how much memory a real step may take."""
    return free_bytes(each.device for each in tensors) // 2


class _TooLargeError(StepError):
    """A real step that takes too much memory."""


def _recorded(given: StepInputs) -> Recorded:
    with _prepared(given) as (model, fakes):
        compiled = tuple(n for n, m in model.named_modules() if is_compiled_module(m))
        batch = fakes.tree(given.batch)
        most = _most_bytes(_tensors_of(model, batch))
        recorder = Recorder(model.named_modules(), most=most if given.is_real else None)
        recorded = Recorded(recorder, compiled=compiled, is_real=given.is_real)
        recorded.flipped = given.flipped
        eager = torch.compiler.set_stance("force_eager") if compiled else contextlib.nullcontext()
        shown = progress("plan", lambda: len(recorder.operations), unit="operations")
        with shown, _entered(fakes), eager:
            _run(model, batch, given, recorded, fakes)
    if fakes.values is not None:
        recorded.is_blind = fakes.values.is_blind
        recorded.assumptions = tuple(map(str, fakes.values.assumptions))
        recorded.not_counted = (*recorded.not_counted, *fakes.values.unknown_memory)
    return recorded


@contextlib.contextmanager
def loss_on_fakes(given: StepInputs) -> Iterator[tuple[torch.Tensor, Names]]:
    """Return a context with the loss of a pass on copies, and names; backward runs in it."""
    with _prepared(given) as (model, fakes), _entered(fakes):
        batch = fakes.tree(given.batch)
        foreign = ForeignTensors(_tensors_of(model, batch))
        with foreign.kept(), handling_mode(foreign.run) if given.is_real else _NOTHING:
            with watch():
                loss = loss_of(model, batch, given.loss)
            foreign.keep_grads(_leaves_of(loss), model)
            yield loss, read_names(model, "plan")


_NOTHING = contextlib.nullcontext()


@contextlib.contextmanager
def _entered(fakes: Fakes) -> Iterator[None]:
    """Return a context in which new tensors are fake, or real in a real step."""
    if fakes.values is None:
        yield
        return
    with taken_as_real(), fakes.mode, fakes.values.keeping():
        yield


@contextlib.contextmanager
def _prepared(given: StepInputs) -> Iterator[tuple[nn.Module, Fakes]]:
    """Return a context with the model, whose tensors are copies until it ends."""
    refuse_to_plan()
    fakes = Copies() if given.is_real else Fakes(given.flipped)
    devices = {each.device for each in given.model.parameters()} if given.is_real else set()
    with contextlib.ExitStack() as stack:
        stack.enter_context(random_state_kept(devices))
        model = given.model
        stack.enter_context(unchanged(model))
        try:
            if given.ranks is not None and given.shard is not None:
                stack.enter_context(fake_ranks(given.ranks))
                model = fakes.model(model)
                given.shard(model)  # outside of the mode, in which no mesh can be made
            elif given.is_real and given.builder is not None:
                model = built_really(given.builder)
            elif any(isinstance(each, torch.jit.ScriptModule) for each in model.modules()):
                model = fakes.script(model)
            else:
                stack.enter_context(swapped_tensors(model, fakes.state(model)))
                fakes.swap_attributes(model)
            if given.patch is not None:
                stack.enter_context(given.patch(model))
            yield model, fakes
        except Exception as error:
            if is_of_plan(error) or isinstance(error, StepError):
                raise
            answers = 0 if fakes.values is None else fakes.values.answers
            kind = _TooLargeError if isinstance(error, MemoryError) else StepError
            raise failed(error, model, answers, kind) from error


def _run(model: nn.Module, batch: Any, given: StepInputs, recorded: Recorded, fakes: Fakes) -> None:
    recorder = recorded.recorder
    optimizer = None
    if given.optimizer is not None:
        optimizer, warning = make_optimizer(given.optimizer, model, fakes)
        recorded.not_counted += (warning,) if warning else ()
    _note_known(recorder, model, batch, optimizer)
    states = [] if optimizer is None else tensors_in(list(optimizer.state.values()))
    foreign = ForeignTensors([*_tensors_of(model, batch), *states])

    def note_cache(output: Any) -> None:
        recorded.has_cache = getattr(output, "past_key_values", None) is not None

    def forward() -> torch.Tensor:
        return loss_of(model, batch, given.loss, note_cache)

    writes = handling_mode(foreign.run) if given.is_real else _NOTHING
    with foreign.kept(), recorder.recording(), writes:
        loss = forward()
        recorded.forward_end = len(recorder.operations)
        with unseen():
            _read_graph(loss, recorded)
            foreign.keep_grads(_leaves_of(loss), model)
        recorder.phase = BACKWARD
        loss.backward()  # type: ignore[no-untyped-call]
        with unseen():
            _note_gradients(recorder, model)
        if optimizer is not None:
            recorder.phase = STEP
            step_optimizer(optimizer, forward)


def _tensors_of(model: nn.Module, batch: Any) -> list[torch.Tensor]:
    return [*model.parameters(), *model.buffers(), *(each for _, each in named_tensors(batch))]


def _leaves_of(loss: torch.Tensor) -> list[torch.Tensor]:
    """Return the leaves of the graph of a loss."""
    root = read_outputs((loss,), "plan")[0].node

    def below(node: Node) -> Iterator[Node]:
        return (each for each, _ in node.next_functions if each is not None)

    found = (leaf_tensor(node) for node in walk([root], below))
    return [each for each in found if each is not None]


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


def loss_of(
    model: nn.Module,
    batch: Any,
    loss: Callable[..., Any] | None,
    ended: Callable[[Any], None] | None = None,
) -> torch.Tensor:
    """Run the model on a batch, and return the loss; ``ended`` gets the model's output."""
    if isinstance(batch, dict):
        output = model(**batch)
    else:
        output = model(*batch) if isinstance(batch, tuple) else model(batch)
    if ended is not None:
        ended(output)
    if loss is not None:
        output = loss(output, batch) if _takes_batch(loss) else loss(output)
    elif not isinstance(output, torch.Tensor):
        output = getattr(output, "loss", None)
    source = "The model returned" if loss is None else "loss returned"
    if not isinstance(output, torch.Tensor):
        text = (
            f"{source} a {type(output).__name__}, not a loss. Give loss=, a function of the output "
            "and, if it takes two arguments, of the batch."
        )
        raise of_plan(TypeError(text))
    if output.numel() != 1 or not output.requires_grad:
        wrong = "does not require grad" if output.numel() == 1 else "has more than one number"
        needed = "one number that depends on parameters"
        do = f"backward() needs {needed}."
        if loss is None:
            do = f"Give loss=, a function of the output that returns {needed}."
        shape = tuple(output.shape)
        raise of_plan(ValueError(f"{source} a tensor of shape {shape} that {wrong}. {do}"))
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
