"""Scripts in the style of public examples: silence where they are right, the fault where not."""

from __future__ import annotations

import contextlib
import gc
import linecache
import re
import warnings
from typing import Any

import healthy_habits  # noqa: F401  its scripts stand in HEALTHY, too
import healthy_methods  # noqa: F401
import healthy_training  # noqa: F401
import pytest
import training_methods  # noqa: F401  its scripts stand in SCRIPTS, too
from healthy_scripts import HEALTHY
from training_scripts import SCRIPTS

from gradwalk.features.follow.follow import FollowedRun
from gradwalk.result import make

FAULTS = [(name, fault) for name, each in SCRIPTS.items() for fault in each.faults]
NOT_FOUND = {
    # A gradient is there, and it is another one than was meant.
    ("a variational autoencoder", "sampled instead of reparametrised"),
}
ALSO = {
    ("digits with a small CNN", "log of a probability of zero"): {"dead", "zero"},
    ("two views of one image", "hidden units that are all negative"): {"zero"},
    ("a graph convolution", "no label in the selection"): {"zero"},
    ("a sequence to sequence model", "outputs of numbers"): {"unused"},
    ("a student and its teacher", "the log of a hard target"): {"dead"},
    ("a segmentation with skips", "labels that are all ignored"): {"zero"},
    ("an image transformer", "attention of detached values"): {"zero"},
}
"""Other warnings, which are true of the broken script, too."""


def played(source: str, file: str) -> FollowedRun:
    """Follow a script as ``gradwalk run`` does."""
    gc.collect()  # no models of an earlier script
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    run: FollowedRun = make(FollowedRun, keeps=False)
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
    warned = {finding.kind for finding in run.findings if finding.severity != "info"}
    assert warned - {fault.kind} == ALSO.get((name, fault.name), set())  # nobody is misled
    named = [parameter for finding in about for parameter in finding.parameters]
    if fault.parameter:
        assert any(each.endswith(fault.parameter) for each in named), str(run)
    lines = [i for i, line in enumerate(source.splitlines(), 1) if line.endswith("# HERE")]
    for line in lines:
        assert any(f"script.py:{line}" in finding.message for finding in about), str(run)


HALVES = {
    "an actor in one optimizer, its critic in another": r"Linear\[1\]",
    "a critic's step beside both optimizers": r"Linear(\[0\])?",
}
"""Steps that train one of two models, and the model that no step trains."""


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in HEALTHY if name not in HALVES])
def test_healthy_methods_have_no_warning(name):
    assert alarms(played(f"{HEALTHY[name]}\n{TRAIN}", "script.py")) == []


@pytest.mark.parametrize("name", HALVES)
def test_a_model_that_no_step_trains_is_named(name):
    run = played(f"{HEALTHY[name]}\n{TRAIN}", "script.py")
    (found,) = (each for each in run.findings if each.severity != "info")
    assert found.kind == "no-gradient"
    assert re.fullmatch(
        rf"({HALVES[name]})\.weight ({HALVES[name]})\.bias", " ".join(found.parameters)
    )


def test_two_optimizers_that_take_turns_have_no_warning():
    run = played(
        """
import torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)
actor, critic = nn.Linear(4, 2), nn.Linear(6, 1)
of_actor, of_critic = (torch.optim.Adam(net.parameters()) for net in (actor, critic))
for _ in range(25):
    x, reward = torch.randn(8, 4), torch.randn(8, 1)
    of_critic.zero_grad()
    F.mse_loss(critic(torch.cat([x, actor(x).tanh().detach()], 1)), reward).backward()
    of_critic.step()
    critic.requires_grad_(False)
    of_actor.zero_grad()
    (-critic(torch.cat([x, actor(x).tanh()], 1)).mean()).backward()
    of_actor.step()
    critic.requires_grad_(True)
""",
        "script.py",
    )
    assert alarms(run) == []


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
