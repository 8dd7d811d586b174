"""Programs that keep old graphs alive by mistake, each in its own way.

Each takes a box that a variable of the test names `box`. It returns how the holder is named, and a
function that lets go.
"""

from __future__ import annotations

import asyncio
import collections
import contextvars
import functools
import signal
import types

import ipywidgets
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from gradwalk import GraphWidget, record

CONTEXT = contextvars.ContextVar("held")
LEAKS = {}
KEPT = {}

weight = torch.ones(100, requires_grad=True)


def one(scale=2.0):
    return (weight * scale).exp().sum()


def calling(owner, name, method):
    """Return a function that does not hold what it lets go of."""
    return lambda: getattr(getattr(owner, name), method)()  # noqa: PLW0108


def leak(plant):
    LEAKS[plant.__name__] = plant
    return plant


class Meter:
    def __init__(self):
        self.vals = []

    def update(self, value):
        self.vals.append(value)


class Slotted:
    __slots__ = ("value",)


@leak
def a_list(box):
    box.history = []
    for i in range(4):
        loss = one(i)
        loss.backward()
        box.history.append(loss)
    return "box.history[0..3]", calling(box, "history", "clear")


@leak
def a_list_without_backward(box):
    box.history = [one(i) for i in range(3)]
    return "box.history[0..2]", calling(box, "history", "clear")


@leak
def every_other_item(box):
    box.history = [one(i) if i % 2 else i for i in range(6)]
    return "box.history[1, 3, 5]", calling(box, "history", "clear")


@leak
def a_dict(box):
    box.table = {"step 3": one()}
    return "box.table['step 3']", calling(box, "table", "clear")


@leak
def a_dict_of_lists(box):
    box.logs = {"train": [one(), one()], "val": []}
    return "box.logs['train'][0..1]", calling(box, "logs", "clear")


@leak
def a_dict_by_step(box):
    box.table = {3: one()}
    return "box.table[3]", calling(box, "table", "clear")


@leak
def a_key(box):
    box.seen = {one(): True}
    return "a key of box.seen", calling(box, "seen", "clear")


@leak
def a_set(box):
    box.seen = {one()}
    return "an element of box.seen", calling(box, "seen", "clear")


@leak
def a_deque(box):
    box.window = collections.deque([one(), one()], maxlen=3)
    return "box.window[0..1]", calling(box, "window", "clear")


@leak
def tuples_in_a_list(box):
    box.history = [(0, one())]
    return "box.history[0][1]", calling(box, "history", "clear")


@leak
def an_attribute(box):
    box.meter = Meter()
    box.meter.last = one()
    return "box.meter.last (attribute of Meter)", lambda: delattr(box.meter, "last")


@leak
def a_list_of_an_object(box):
    box.meter = Meter()
    for _ in range(3):
        box.meter.update(one())
    return "box.meter.vals[0..2] (attribute of Meter)", calling(box.meter, "vals", "clear")


@leak
def deep_in_objects(box):
    box.trainer = types.SimpleNamespace(meters={"loss": Meter()})
    box.trainer.meters["loss"].update(one())
    return "box.trainer.meters['loss'].vals[0]", lambda: delattr(box, "trainer")


@leak
def an_attribute_of_a_class(box):
    class Config:
        last = one()

    box.config = Config
    return "Config.last (class attribute)", lambda: delattr(box.config, "last")


@leak
def a_slot(box):
    box.slotted = Slotted()
    box.slotted.value = one()
    return "box.slotted.value", lambda: delattr(box.slotted, "value")


@leak
def a_closure(box):
    loss = one()
    box.callback = lambda: loss
    return "loss (closure of box.callback", lambda: delattr(box, "callback")


@leak
def a_list_in_a_closure(box):
    def logging():
        seen = []

        def log(value):
            seen.append(value)

        return log

    box.log = logging()
    box.log(one())
    return "seen[0] (list, closure of box.log", lambda: delattr(box, "log")


@leak
def a_default_argument(box):
    def call(value=one()):  # noqa: B008  the leak
        return value

    box.call = call
    return "box.call", lambda: delattr(box, "call")


@leak
def a_partial(box):
    box.calls = [functools.partial(print, one())]
    return "box.calls[0].args[0]", calling(box, "calls", "clear")


@leak
def a_bound_method(box):
    meter = Meter()
    meter.update(one())
    box.callbacks = [meter.update]
    return "box.callbacks[0].__self__.vals[0]", calling(box, "callbacks", "clear")


@leak
def a_generator(box):
    def steps():
        while True:
            loss = one()
            yield loss.item()

    box.steps = steps()
    next(box.steps)
    return "loss (local of the generator box.steps", calling(box, "steps", "close")


@leak
def a_coroutine(box):
    class Wait:
        def __await__(self):
            yield

    async def train():
        loss = one()
        await Wait()
        return loss

    box.task = train()
    box.task.send(None)
    return "loss (local of the coroutine box.task", calling(box, "task", "close")


@leak
def an_exception(box):
    def step():
        loss = one()
        raise ValueError(loss.item())

    try:
        step()
    except ValueError as error:
        box.error = error
    return "loss (local of step() at leaks.py", lambda: delattr(box, "error")


@leak
def the_context_of_an_exception(box):
    def step():
        loss = one()
        raise ValueError(loss.item())

    try:
        try:
            step()
        except ValueError:
            raise KeyError from None
    except KeyError as error:
        box.error = error
    return "in the traceback of box.error.__context__", lambda: delattr(box, "error")


@leak
def a_hook_of_a_parameter(box):
    box.net = nn.Linear(1, 1)
    loss = one()
    handle = box.net.weight.register_hook(lambda grad: grad * loss.item())
    return "loss (closure of a backward hook of box.net.weight", handle.remove


@leak
def a_hook_of_a_module(box):
    box.net = nn.Linear(1, 1)
    seen = []
    handle = box.net.register_forward_hook(lambda *_: seen)
    seen.append(one())
    return "seen[0] (list, closure of a forward hook of box.net", handle.remove


@leak
def a_hook_of_a_node(box):
    box.other = weight * 3
    loss = one()
    handle = box.other.grad_fn.register_hook(lambda *_: loss)
    return "a hook of an autograd node", handle.remove


class Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


@leak
def an_attribute_of_ctx(box):
    box.other = Kept.apply(weight)
    box.other.grad_fn.loss = one()  # as ctx.loss in forward
    return "ctx.loss (attribute of KeptBackward)", lambda: delattr(box.other.grad_fn, "loss")


@leak
def a_gradient_with_a_graph(box):
    box.w = torch.ones(100, requires_grad=True)
    box.w.grad = torch.autograd.grad((box.w**3).sum(), box.w, create_graph=True)[0]
    return "box.w.grad", lambda: setattr(box.w, "grad", None)


@leak
def the_state_of_an_optimizer(box):
    box.net = nn.Linear(1, 1)
    box.optimizer = torch.optim.SGD(box.net.parameters(), lr=0.1, momentum=0.9)
    box.optimizer.state[box.net.weight]["momentum_buffer"] = one()
    return "['momentum_buffer']", calling(box.optimizer, "state", "clear")


@leak
def a_data_loader(box):
    box.loader = DataLoader(TensorDataset(one(2).repeat(4)))
    return "box.loader.dataset.tensors[0]", lambda: delattr(box, "loader")


@leak
def the_result_of_a_finished_task(_):
    async def result():
        return one()

    async def main():
        KEPT["task"] = asyncio.ensure_future(result())
        await KEPT["task"]

    asyncio.run(main())
    globals()["TASK"] = KEPT.pop("task")
    return "TASK.result()", lambda: globals().pop("TASK") is None


@leak
def an_array_of_objects(_):
    array = globals()["ARRAY"] = np.empty((2, 2), dtype=object)
    array[1, 0] = one()
    return "ARRAY[(1, 0)]", lambda: globals().pop("ARRAY") is None


@leak
def a_hidden_state(box):
    box.net = nn.Linear(1, 1)
    box.net.hidden = one()
    return "box.net.hidden", lambda: delattr(box.net, "hidden")


@leak
def a_buffer(box):
    box.net = nn.Sequential(nn.Linear(1, 1))
    box.net[0].register_buffer("average", torch.zeros(()))
    box.net[0].average = one()
    return "box.net.0.average", lambda: delattr(box.net[0], "average")


@leak
def an_attribute_of_a_tensor(box):
    box.w = torch.ones(1, requires_grad=True)
    box.w.last = one()
    return "box.w.last", lambda: delattr(box.w, "last")


@leak
def a_node(box):
    box.nodes = [one().grad_fn]
    return "box.nodes[0]", calling(box, "nodes", "clear")


@leak
def an_open_widget(_):
    GraphWidget(one())
    return "an open GraphWidget", close_all


def close_all():
    ipywidgets.Widget.close_all()


@leak
def a_recording(box):
    box.recording = record(one())
    return "box.recording (Recording)", lambda: delattr(box, "recording")


@leak
def a_context_variable(_):
    CONTEXT.set([one()])
    return "that no name leads to", lambda: CONTEXT.set(None) and None


def _no_handler():
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)


@leak
def a_handler_of_a_signal(box):
    loss = one()

    def stop(*_):
        print(loss)

    signal.signal(signal.SIGUSR1, stop)
    return "loss (closure of signal.getsignal(signal.SIGUSR1))", _no_handler


@leak
def a_method_that_handles_a_signal(box):
    meter = Meter()
    meter.update(one())
    signal.signal(signal.SIGUSR1, meter.update)
    return "signal.getsignal(signal.SIGUSR1).__self__.vals[0]", _no_handler
