"""Assertions about gradients, for test suites."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from .backward.record import record_captured
from .explain.causes import reason_of
from .explain.loss_graph import LossGraph, read_loss
from .explain.reason import Reason
from .graph.names import Names, caller_names
from .sources.diagnose import diagnose
from .torch_api.modes import grad_mode_kept
from .torch_api.saved_tensors import is_freed

_FINE = {"gradient", "recorded", "summed", "unrecorded", "frozen"}
_MOST_LISTED = 20


def assert_gradients(
    model: nn.Module,
    loss: torch.Tensor,
    *,
    finite: bool = True,
    nonzero: bool = True,
    stacklevel: int = 1,
) -> None:
    """Assert that backward from a loss gives every parameter of a model a gradient.

    Before ``loss.backward()`` it runs backward once, and restores every ``.grad``; the graph stays
    usable. After it, the ``.grad`` that the parameters hold is checked. Parameters with
    ``requires_grad=False`` are not checked. Fake and meta tensors have no values to check, so there
    a gradient only has to exist.

    Args:
        model (nn.Module): The module whose parameters are checked.
        loss (torch.Tensor): The tensor that backward starts from, of one number.
        finite (bool, optional): Whether NaN and Inf in a gradient fail. By default they do.
        nonzero (bool, optional): Whether a gradient that is zero everywhere fails. By default it
            does.
        stacklevel (int, optional): The frame whose variables give names, as for ``warnings.warn``:
            1 is the caller, and a function that wraps this one passes 2. Default: ``1``.

    Raises:
        AssertionError: A parameter has no such gradient. The message has a line for each, with the
            sentence of `gradwalk.explain_grad`, and for NaN and Inf also that of
            `gradwalk.diagnose`.
        TypeError: ``model`` is not a module, or ``loss`` is not a tensor.

    Example::

        >>> import torch, gradwalk
        >>> model = torch.nn.Linear(2, 1)
        >>> gradwalk.testing.assert_gradients(model, model(torch.ones(3, 2)).sum())
        >>> gradwalk.testing.assert_gradients(model, model.weight.sum())
        Traceback (most recent call last):
        AssertionError: 1 of the 2 parameters of Linear fails:
        - bias: model.bias is not part of the graph of the loss: the loss was not computed from \
it, or only from values without a graph (detach(), a copy, a number). Run the forward pass under \
gradwalk.watch() and ask again to see where.
    """
    __tracebackhide__ = True  # pytest points at the line of the test
    for what, given, wanted in (("model", model, nn.Module), ("loss", loss, torch.Tensor)):
        if not isinstance(given, wanted):
            raise TypeError(
                f"assert_gradients() was given a {type(given).__name__} as the {what}. Give the "
                "model first and then the loss, as in assert_gradients(model, loss)."
            )
    checked = {name: each for name, each in model.named_parameters() if each.requires_grad}
    kind = type(model).__name__
    if not checked:
        raise AssertionError(f"{kind} has no parameter that requires grad, so none can get one.")
    names = caller_names(None, "assert_gradients", stacklevel)
    fine = _FINE | (set() if finite else {"nan"}) | (set() if nonzero else {"zero"})
    reasons, born = _reasons(checked, read_loss((loss,), names), names)
    failed = {name: reason for name, reason in reasons.items() if reason.kind not in fine}
    if not failed:
        return
    of = f"of the {len(checked)} parameters" if len(checked) > 1 else "parameter"
    lines = [f"{len(failed)} {of} of {kind} {'fails' if len(failed) == 1 else 'fail'}:"]
    lines += [f"- {name}: {failed[name].sentence}" for name in list(failed)[:_MOST_LISTED]]
    if len(failed) > _MOST_LISTED:
        lines.append(f"- and {len(failed) - _MOST_LISTED:,} more")
    if any(reason.kind == "nan" for reason in failed.values()):
        lines += born
    raise AssertionError("\n".join(lines))


@grad_mode_kept
def _reasons(
    parameters: dict[str, nn.Parameter], graph: LossGraph, names: Names
) -> tuple[dict[str, Reason], list[str]]:
    """Return the reason of each ``.grad``, and where NaN and Inf began."""
    captured = graph.captured
    has_run = captured is None or graph.run is not None or any(map(is_freed, captured.nodes))
    before = {name: each.grad for name, each in parameters.items()}
    recording = None
    try:
        if captured is not None and not has_run:
            for each in parameters.values():
                each.grad = None  # what an earlier pass left would be added to
            recording = record_captured(captured, retain_graph=True)
            graph = replace(graph, run=recording._pass.run)
        with torch.no_grad():
            reasons = {
                name: reason_of(each, names.name_of(each) or name, graph)
                for name, each in parameters.items()
            }
        born = [] if recording is None else diagnose(recording)
        return reasons, [finding.message for finding in born if finding.kind == "nan"]
    finally:
        if recording is not None:
            recording.reset()
        for name, each in parameters.items():
            if not has_run:
                each.grad = before[name]
