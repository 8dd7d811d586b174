"""Two processes of ``torchrun`` make one report."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest

from gradwalk import load
from gradwalk.features.follow.ranks import Processes, united

SCRIPT = """
import sys, torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
distributed.init_process_group("gloo")
rank = distributed.get_rank()
torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 1)
    def forward(self, x):
        return self.head(self.body(x).detach())

net = Net()
if sys.argv[1] == "odd" and rank == 1:
    net.body.bias.requires_grad_(False)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
net = DistributedDataParallel(net.head) if sys.argv[1] == "head" else net
for step in range(3):
    optimizer.zero_grad()
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
print("rank", rank, flush=True)
distributed.destroy_process_group()
"""


def torchrun(tmp_path, *words):
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return subprocess.run(
        [sys.executable, *start, "-m", "gradwalk", "run", *map(str, words)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def ours(done):
    return [line for line in done.stderr.splitlines() if "gradwalk:" in line]


def test_findings_that_agree_are_said_once(tmp_path):
    report = tmp_path / "report.json"
    done = torchrun(tmp_path, "--json", report, "--save", tmp_path / "step.gw", "train.py", "odd")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == ["0", "1", "rank", "rank"]
    lines = ours(done)
    assert len([line for line in lines if "got no gradient at step 1 (2 of 4" in line]) == 1
    assert len([line for line in lines if "got no gradient at step 1 (1 of 3" in line]) == 1
    assert [line for line in lines if line.startswith("gradwalk: rank 1: warning")]
    found = json.loads(report.read_text(encoding="utf-8"))
    assert found["ranks"] == [0, 1]
    assert {tuple(each["ranks"]) for each in found["findings"]} == {(0,), (1,)}
    opened = load(str(tmp_path / "step-*.gw"))
    assert opened.model["nodes"]


def test_strict_ends_with_a_failure_once_all_have_reported(tmp_path):
    done = torchrun(tmp_path, "--strict", "train.py", "same")
    assert done.returncode == 1  # torchrun's own, for a process that ended with 2
    assert any("ranks 0 and 1 agree on no-gradient: train.py:" in line for line in ours(done))


def test_reports_are_united_by_what_they_say():
    finding = {"kind": "nan", "severity": "error", "step": 3, "parameters": ["w"], "line": None}
    reports = [
        {"rank": rank, "findings": [{**finding, "message": str(rank)}], "notes": []}
        for rank in range(3)
    ]
    reports[2]["findings"][0]["step"] = 4
    found = united(reports[0], reports[1:])
    assert [each["ranks"] for each in found["findings"]] == [[0, 1], [2]]
    assert found["ranks"] == [0, 1, 2]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, (0, True, "a.gw")),
        ({"RANK": "5", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}, (5, False, "a-5.gw")),
        ({"RANK": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "4"}, (4, True, "a-4.gw")),
    ],
)
def test_processes_by_what_torchrun_sets(environment, expected):
    found = Processes.read(environment)
    assert (found.rank, found.is_first, found.path_for("a.gw")) == expected
