"""``python -m gradwalk`` on a saved graph."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
import torch

from gradwalk import save
from gradwalk.__main__ import main


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    weight = torch.ones(2, requires_grad=True)
    return str(save((weight * 3).sum(), tmp_path_factory.mktemp("saved") / "run.gw.json.gz"))


def test_it_runs_as_a_module(file):
    run = subprocess.run(
        [sys.executable, "-m", "gradwalk", file], capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith("GraphWidget(3 nodes, 2 edges, 1 leaf)\n0 Sum scalar = 6\n")
    assert run.stderr == ""


def test_files_are_written(file, tmp_path, capsys):
    html, svg = tmp_path / "out.html", tmp_path / "out.svg"
    assert main([file, "--html", str(html), "--svg", str(svg), "--title", "One <run>"]) == 0
    assert "<title>One &lt;run&gt;</title>" in html.read_text()
    assert "MulBackward0" in " ".join(ET.fromstring(svg.read_text()).itertext())
    assert capsys.readouterr() == ("", "")
    assert main([file, "--svg", str(svg), "--text"]) == 0
    shown, said = capsys.readouterr()
    assert "weight" in shown
    assert said == f"to_svg() has replaced the file {svg}.\n"


def test_help_names_every_option(capsys):
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    for option in ("--html", "--svg", "--text", "--theme", "--whole", "--lines", "--title"):
        assert option in shown


def test_what_cannot_be_done_gets_a_sentence(file, tmp_path, capsys):
    broken = tmp_path / "broken.gw.json.gz"
    broken.write_bytes(b"nothing")
    for arguments, words in [
        ([str(tmp_path / "missing")], "cannot be read"),
        ([str(broken)], "is damaged"),
        ([file, "--html", str(tmp_path / "no" / "out.html")], "there is no folder"),
    ]:
        assert main(arguments) == 1
        shown, said = capsys.readouterr()
        assert shown == ""
        assert words in said
        assert "Traceback" not in said


def test_usage_errors_are_argparse_own(capsys):
    with pytest.raises(SystemExit) as left:
        main([])
    assert left.value.code == 2
    assert "usage" in capsys.readouterr().err
