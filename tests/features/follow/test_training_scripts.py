"""Scripts in the style of public examples: silence where they are right, the fault where not."""

from __future__ import annotations

import contextlib
import gc
import linecache
import warnings
from typing import Any

import healthy_habits  # noqa: F401  its scripts stand in HEALTHY, too
import healthy_methods  # noqa: F401
import healthy_training  # noqa: F401
import pytest
from healthy_scripts import HEALTHY
from training_scripts import SCRIPTS

from gradwalk.features.follow.follow import FollowedRun
from gradwalk.result import make

FAULTS = [(name, fault) for name, each in SCRIPTS.items() for fault in each.faults]
NOT_FOUND = {
    # A gradient is there, and it is another one than was meant.
    ("a variational autoencoder", "sampled instead of reparametrised"),
}
PLACELESS = ("optimizer", "cleared", "scaled", "frozen", "unchanged", "unused", "zero")


def played(source: str, file: str) -> FollowedRun:
    """Follow a script as ``gradwalk run`` does."""
    gc.collect()  # no models of an earlier script
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    run: FollowedRun = make(FollowedRun, None, 1, None, None, False)
    space: dict[str, Any] = {"__name__": "script"}
    with warnings.catch_warnings(), run:
        warnings.simplefilter("ignore")
        with contextlib.suppress(ValueError, RuntimeError):  # NaN in the weights may end it
            exec(compile(source, file, "exec"), space)
    assert run.as_json()["notes"] == []
    return run


def alarms(run: FollowedRun) -> list[str]:
    return [f"{f.kind}: {f.message}" for f in run.findings if f.severity != "info"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_unharmed_script_has_no_warning(name):
    assert alarms(played(SCRIPTS[name].source, "script.py")) == []


@pytest.mark.parametrize(("name", "fault"), FAULTS, ids=[f"{n}: {f.name}" for n, f in FAULTS])
def test_a_planted_fault_is_named(name, fault):
    source = SCRIPTS[name].broken(fault)
    run = played(source, "script.py")
    if (name, fault.name) in NOT_FOUND:
        assert alarms(run) == []
        return
    about = [finding for finding in run.findings if finding.kind == fault.kind]
    assert about, str(run)
    named = [parameter for finding in about for parameter in finding.parameters]
    if fault.parameter:
        assert any(each.endswith(fault.parameter) for each in named), str(run)
    lines = [i for i, line in enumerate(source.splitlines(), 1) if line.endswith("# HERE")]
    for line in lines:
        assert any(f"script.py:{line}" in finding.message for finding in about), str(run)


def test_three_of_four_faults_are_named_and_none_misleads():
    assert len(SCRIPTS) == 15
    assert len(FAULTS) == 60
    assert len(NOT_FOUND) <= 15


ALARMED = {
    "an actor in one optimizer, its critic in another",
    "a critic's step beside both optimizers",
}
"""Known false alarms: two optimizers take turns, and one step is judged before the other's pass."""


@pytest.mark.full
@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_methods_have_no_warning(name):
    source = f"{HEALTHY[name]}\n{TRAIN}"
    assert (alarms(played(source, "script.py")) != []) == (name in ALARMED)


TRAIN = """
def _trained():
    found = {}
    for value in list(globals().values()):
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(each, nn.Module):
                found.update((id(p), p) for p in each.parameters() if p.requires_grad)
            elif isinstance(each, torch.Tensor) and each.is_leaf and each.requires_grad:
                found[id(each)] = each
    return list(found.values())

_optimizer = globals().get("optimizer")
if not isinstance(_optimizer, torch.optim.Optimizer) or isinstance(_optimizer, torch.optim.LBFGS):
    _optimizer = torch.optim.SGD(_trained(), 1e-4)
for _ in range(3):
    step().backward()
    _optimizer.step()
    _optimizer.zero_grad()
"""
