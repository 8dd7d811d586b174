"""``python -m gradwalk run``: the script runs as without it, and the report says what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import fresh
import pytest

from gradwalk import load

HEAD = """
import sys
import torch
from torch import nn

torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x):
        return self.head(self.body(x){cut})

net = Net()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(3):
    optimizer.zero_grad()
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


@pytest.fixture
def script(tmp_path):
    def write(tail="", cut="", name="train.py"):
        path = tmp_path / name
        path.write_text(HEAD.replace("{cut}", cut) + textwrap.dedent(tail), encoding="utf-8")
        return str(path)

    return write


def run(*words):
    """Run the command in a process that has imported torch."""
    return fresh.run(f"""
from gradwalk.__main__ import main
sys.exit(main({["run", *map(str, words)]!r}))
""")


def test_a_healthy_script_has_one_line(script):
    done = run(script())
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        "gradwalk: step 1: 4 of 4 trainable parameters have a gradient "
        f"(1 backward pass, loss {done.stderr.split('loss ')[1].rstrip(').' + chr(10))})."
    ]
    assert done.stdout == ""


def test_a_cut_is_named_and_strict_exits_with_two(script):
    path = script(cut=".detach()")
    done = run(path)
    assert done.returncode == 0
    assert "warning: body.weight and body.bias got no gradient at step 1" in done.stderr
    assert "detach() at " in done.stderr
    assert run("--strict", path).returncode == 2


def test_arguments_name_and_exit_code_are_those_of_the_script(script):
    path = script("""
    import pickle
    print(sys.argv[1:], __name__, __file__ == sys.argv[0], __spec__)
    print(type(pickle.loads(pickle.dumps(Net()))).__module__, sys.modules["__main__"].Net is Net)
    sys.exit(7)
    """)
    done = run(path, "--lr", "3", "--at", "9")
    assert done.returncode == 7
    first, second = done.stdout.splitlines()
    assert first == "['--lr', '3', '--at', '9'] __main__ True None"
    assert second == "__main__ True"


def test_the_words_of_an_exit_are_printed_as_by_python(script):
    done = run(script('sys.exit("no data")'))
    assert done.returncode == 1
    assert done.stderr.endswith("no data\n")


def test_an_error_of_the_script_has_its_traceback(script):
    done = run(
        script("""
    def fails():
        raise ValueError("mine")
    fails()
    """)
    )
    assert done.returncode == 1
    assert "ValueError: mine" in done.stderr
    assert "gradwalk/" not in done.stderr


def test_a_failing_call_is_described(tmp_path):
    path = tmp_path / "fails.py"
    path.write_text("import torch\ntorch.nn.Linear(4, 4)(torch.ones(2, 5))", encoding="utf-8")
    done = run(path)
    assert done.returncode == 1
    assert "linear() got" in done.stderr
    assert "RuntimeError: mat1 and mat2" in done.stderr


def test_files_for_a_notebook_a_page_and_a_program(script, tmp_path):
    saved, page, report = (tmp_path / name for name in ("step.gw", "step.html", "report.json"))
    words = ["--at", "2", "--save", saved, "--html", page, "--json", report]
    done = run(*words, script(cut=".detach()"))
    assert done.returncode == 0, done.stderr
    assert {node["name"] for node in load(saved).model["nodes"]} >= {"head.weight"}
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    given = json.loads(report.read_text(encoding="utf-8"))
    assert given["schema_version"] == 1
    assert [look["step"] for look in given["looks"]] == [2]
    (finding,) = given["findings"]
    assert finding["kind"] == "no-gradient"
    assert finding["parameters"] == ["body.weight", "body.bias"]
    assert finding["line"].endswith("train.py:14")


def test_only_what_was_asked_for_is_reported(script):
    done = run("--watch-for", "nan,spike", "--strict", script(cut=".detach()"))
    assert done.returncode == 0
    assert "warning" not in done.stderr


def test_wrong_usage():
    for words, words_of_error in (
        (["--at", "0", "x.py"], "'0' is not the number of a step"),
        (["--watch-for", "all", "x.py"], "'all' is not one of nan, zero"),
        ([], "no script was given"),
    ):
        done = run(*words)
        assert done.returncode == 1
        assert words_of_error in done.stderr


def test_a_script_that_never_trains(tmp_path):
    path = tmp_path / "plain.py"
    path.write_text("print('done')", encoding="utf-8")
    done = run(path)
    assert done.returncode == 0
    assert done.stdout == "done\n"
    assert "no backward pass" in done.stderr


def test_workers_spawned_processes_and_modules_work_as_without(script, tmp_path):
    script(name="package_of_a_test.py")
    (tmp_path / "data_train.py").write_text(
        textwrap.dedent("""
        import multiprocessing, sys
        import torch
        from torch import nn

        def double(x):
            return 2 * x

        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 8
            def __getitem__(self, i):
                return torch.full((4,), float(i))

        def main():
            torch.manual_seed(0)
            net = nn.Linear(4, 1)
            optimizer = torch.optim.SGD(net.parameters(), 0.01)
            loader = torch.utils.data.DataLoader(
                Data(), 4, num_workers=1, multiprocessing_context=sys.argv[1]
            )
            for x in loader:
                optimizer.zero_grad()
                net(x).mean().backward()
                optimizer.step()
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(double, [1, 2]), *(float(p.sum()) for p in net.parameters()))

        if __name__ == "__main__":
            main()
        """),
        encoding="utf-8",
    )

    def started(*words):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        return done.stdout, done.stderr

    plain, _ = started("data_train.py", "fork")
    for words in (["data_train.py", "fork"], ["-m", "data_train", "spawn"]):
        out, err = started("-m", "gradwalk", "run", *words)
        assert out == plain
        assert "step 1: 2 of 2 trainable parameters" in err
