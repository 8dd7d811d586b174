"""``python -m gradwalk plan``: what it prints, and its exit codes."""

from __future__ import annotations

import pytest

from gradwalk.__main__ import main

SCRIPT = """
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard


def shard(model):
    for block in model:
        fully_shard(block)
    fully_shard(model)


def small():
    blocks = [nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64)) for _ in range(4)]
    return {
        "model": nn.Sequential(*blocks),
        "batch": torch.ones(999, 64),
        "loss": torch.sum,
        "shard": shard,
    }


def planned():
    import gradwalk

    return gradwalk.plan(nn.Linear(4, 4), torch.ones(2, 4), loss=torch.sum)


def wrong():
    return 3


def broken():
    raise ValueError("it broke")


def unknown():
    model = nn.Linear(4, 4)
    return {"model": model, "batch": torch.ones(2, 4), "loss": torch.sum, "optimizer": "LBFGS"}


def wrong_batch():
    return {"model": nn.Linear(4, 4), "batch": torch.ones(2, 5), "loss": torch.sum}
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    (tmp_path / "step_of_a_test.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    return "step_of_a_test"


def test_a_plan_is_printed(script, capsys):
    assert main(["plan", f"{script}:small"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Peak ")
    assert "Not counted: the context of CUDA, allocator rounding" in out


def test_a_file_and_a_plan_do_too(script, capsys):
    assert main(["plan", f"{script}.py:planned"]) == 0
    assert "Peak 200 B" in capsys.readouterr().out


def test_a_budget_brings_advice_and_an_exit_code(script, capsys):
    assert main(["plan", f"{script}:small", "--budget", "80GB"]) == 0
    assert "it fits in 74.5 GiB" in capsys.readouterr().out
    assert main(["plan", f"{script}:small", "--budget", "1.6MB"]) == 2
    assert "from torch.utils.checkpoint import checkpoint" in capsys.readouterr().out


def test_a_lower_bound_within_the_budget_has_an_exit_code_of_its_own(script, capsys):
    assert main(["plan", f"{script}:unknown", "--budget", "1GB"]) == 3
    out = capsys.readouterr().out
    assert out.startswith("Peak at least ")
    assert "Lower bound: The history of LBFGS is not counted." in out
    assert "whether it fits in 954 MiB is unknown" in out
    assert main(["plan", f"{script}:unknown", "--budget", "100B"]) == 2
    assert main(["plan", f"{script}:unknown"]) == 0


def test_ranks_shard_the_model(script, capsys):
    assert main(["plan", f"{script}:small", "--ranks", "64"]) == 0
    assert "on each of 64 ranks" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["small"], "names no function"),
        (["step_of_a_test:none"], "has no function 'none'"),
        (["no_such_module:f"], "No module named"),
        (["step_of_a_test:wrong"], "returned a int"),
        (["step_of_a_test:broken"], "it broke"),
        (["step_of_a_test:wrong_batch"], "mat1 and mat2 shapes cannot be multiplied (2x5 and 4x4)"),
        (["step_of_a_test:small", "--budget", "much"], "budget was given 'much'"),
    ],
)
def test_errors_are_one_sentence_and_exit_with_one(script, capsys, arguments, said):
    assert main(["plan", *arguments]) == 1
    assert said in capsys.readouterr().err


def test_wrong_usage_exits_with_one(capsys):
    with pytest.raises(SystemExit) as left:
        main(["plan", "a:b", "--ranks", "many"])
    assert left.value.code == 1
