"""``python -m gradwalk`` on a saved graph."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import torch

import gradwalk
from gradwalk import GraphWidget, compare, load, save
from gradwalk.__main__ import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("saved")


@pytest.fixture(scope="module")
def file(folder):
    weight = torch.ones(2, requires_grad=True)
    return str(save((weight * 3).sum(), path=folder / "run.gw"))


@pytest.fixture(scope="module")
def broken(folder):
    """The file of a pass in which Inf is born."""
    root = torch.zeros(3, requires_grad=True)
    widget = GraphWidget(root.sqrt().sum())
    widget.backward()
    path = save(widget, path=folder / "broken.gw")
    widget.close()
    return str(path)


def asked(capsys, *arguments):
    """The exit code and the JSON."""
    code = main([*arguments])
    shown, said = capsys.readouterr()
    assert said == ""
    return code, json.loads(shown)


def test_it_runs_as_a_module(file):
    run = subprocess.run(
        [sys.executable, "-m", "gradwalk", file, "--text", "-"],
        capture_output=True,
        text=True,
        check=True,
    )
    first, second, *_ = run.stdout.splitlines()
    assert first == "3 nodes, 2 edges, 1 leaf. The rest is data from the file:"
    assert second == "0 Sum scalar = 6"
    assert run.stderr == ""


def test_without_an_output_a_summary_is_printed(file, capsys):
    assert main([file]) == 0
    shown, said = capsys.readouterr()
    assert shown.startswith(
        f"{file}: 3 nodes, 2 edges, 1 leaf\n"
        "backward: not recorded; memory held for backward: 8 bytes\n"
        "findings: 1 info\n"
        "| info: No backward pass has been seen"
    )
    assert said == ""


def test_the_summary_marks_sentences_of_the_file(broken, capsys):
    assert main([broken]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "backward: 3 steps; memory held for backward: 12 bytes"
    assert lines[2] == "findings: 1 error"
    assert lines[3].startswith("| error (node 1): Inf is born here")
    assert len(lines) == 4


def test_files_are_written(file, tmp_path, capsys):
    html, svg, png, text = (tmp_path / f"out.{kind}" for kind in ("html", "svg", "png", "txt"))
    outputs = ["--html", str(html), "--svg", str(svg), "--png", str(png), "--text", str(text)]
    assert main([file, *outputs, "--title", "One <run>"]) == 0
    assert "<title>One &lt;run&gt;</title>" in html.read_text()
    assert "MulBackward0" in " ".join(ET.fromstring(svg.read_text()).itertext())
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "leaf weight" in text.read_text()
    assert capsys.readouterr() == ("", "")
    assert main([file, "--svg", str(svg), "--text", "-", "--json", "steps"]) == 0
    shown, said = capsys.readouterr()
    tree, _, answer = shown.partition("\n{")
    assert "weight" in tree
    assert json.loads(f"{{{answer}")["total"] == 0
    assert said == ""


def test_pages_and_pictures_are_those_of_the_widget(broken, tmp_path):
    html, svg = tmp_path / "out.html", tmp_path / "out.svg"
    assert main([broken, "--html", str(html), "--svg", str(svg)]) == 2
    widget = load(broken)
    assert svg.read_text() == widget.to_svg()
    assert html.read_text() == widget.to_html()
    widget.close()


def test_a_comparison_has_summaries_pages_and_pictures(tmp_path, capsys):
    w = torch.zeros(3, requires_grad=True)
    both = compare({"root": w.sqrt().sum(), "sine": w.sin().sum()})
    both.backward()
    file, page, picture = (str(tmp_path / f"both.{kind}") for kind in ("gw", "html", "svg"))
    save(both, file)
    assert main([file, "--html", page, "--svg", picture]) == 2  # Inf is born in one
    assert Path(page).read_text() == both.to_html()
    assert Path(picture).read_text() == both.to_svg()
    assert main([file]) == 2
    heads = [line for line in capsys.readouterr().out.splitlines() if line.startswith(file)]
    assert heads == [f"{file}, {label}: 3 nodes, 2 edges, 1 leaf" for label in ("root", "sine")]
    assert main([file, "--json", "nodes"]) == 1
    assert "--json takes a file of one graph" in capsys.readouterr().err
    both.close()


def test_json_has_a_version_and_says_where_its_strings_are_from(broken, capsys):
    code, answer = asked(capsys, broken, "--json", "findings")
    assert code == 2
    assert answer["schema_version"] == 1
    assert answer["query"] == "findings"
    assert "come from the file" in answer["note"]
    assert answer["total"] == 1
    assert answer["data"][0]["severity"] == "error"
    assert answer["data"][0]["nodes"] == [1]


def test_json_of_nodes_steps_and_memory(broken, capsys):
    widget = load(broken)
    assert (
        asked(capsys, broken, "--json", "nodes")[1]["data"] == widget._shown().source.model["nodes"]
    )
    assert asked(capsys, broken, "--json", "steps")[1]["data"] == widget._shown().source.steps
    widget.close()
    memory = asked(capsys, broken, "--json", "memory")[1]["data"]
    assert memory == [{"node": 1, "op": "SqrtBackward0", "name": None, "bytes": 12}]


def test_json_explains_a_leaf(broken, capsys):
    answer = asked(capsys, broken, "--json", "explain:root")[1]
    assert answer["data"][0]["name"] == "root"
    assert "root.grad" in answer["data"][0]["explanation"]


def test_the_limit_counts_what_it_leaves_out(broken, capsys):
    answer = asked(capsys, broken, "--json", "nodes", "--limit", "2")[1]
    assert answer["total"] == 3
    assert [node["id"] for node in answer["data"]] == [0, 1]


def test_control_characters_of_a_file_never_reach_the_terminal(folder, capsys):
    evil = "\x1b[2J\u202egnp.exe\n| error: rm -rf"
    leaf = torch.zeros(3, requires_grad=True)
    widget = GraphWidget(leaf.sqrt().sum(), names={evil: leaf})
    widget.backward()
    path = str(save(widget, path=folder / "evil.gw"))
    widget.close()
    for arguments in ([path], [path, "--text", "-"], [path, "--json", "nodes"]):
        assert main(arguments) == 2
        shown, said = capsys.readouterr()
        assert "\x1b" not in shown + said
        assert "\u202e" not in shown + said
    assert main([path, "--json", "explain:\x1b"]) == 1
    shown, said = capsys.readouterr()
    assert "\x1b" not in said
    assert said.count("\n") == 1
    assert main([path, "--json", f"explain:{evil}"]) == 2
    assert json.loads(capsys.readouterr().out)["data"][0]["name"] == evil


def test_help_names_every_option_and_exit_code(capsys):
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    for option in ("html", "svg", "png", "text", "json", "limit", "theme", "whole", "lines"):
        assert f"--{option} " in shown
    assert "explain:NAME" in shown
    assert "The exit code is 0; 1 for" in " ".join(shown.split())


def test_what_cannot_be_done_gets_a_sentence(file, tmp_path, capsys):
    damaged, cut = tmp_path / "damaged.gw", tmp_path / "cut.gw"
    damaged.write_bytes(b"nothing")
    cut.write_bytes(Path(file).read_bytes()[:-20])
    for arguments, words in [
        ([str(tmp_path / "missing")], "cannot be read"),
        ([str(tmp_path / "*.none")], "no file fits it"),
        ([str(damaged)], "is damaged"),
        ([str(cut)], "is damaged"),
        ([str(tmp_path)], "cannot be read"),
        ([file, "--rank", "1"], "along with one file"),
        ([file, "--json", "explain:nobody"], "'weight'"),
        ([file, "--html", str(tmp_path / "no" / "out.html")], "does not exist"),
        ([file, "--text", str(tmp_path / "no" / "out.txt")], "does not exist"),
    ]:
        assert main(arguments) == 1
        shown, said = capsys.readouterr()
        assert shown == ""
        assert words in said
        assert "Traceback" not in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "required: file"),
        (["run.gw", "--json", "leaves"], "findings, nodes, steps, memory and explain:NAME"),
        (["run.gw", "--json", "explain:"], "findings, nodes, steps, memory and explain:NAME"),
        (["run.gw", "--limit", "0"], "'0' is not a number of at least 1"),
        (["run.gw", "--lines", "many"], "'many' is not a number of at least 1"),
    ],
)
def test_wrong_usage_does_not_look_like_a_finding(arguments, words, capsys):
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("usage: ")
    assert words in said


@pytest.mark.parametrize(
    "program", [["-m", "gradwalk"], ["-c", "import gradwalk.__main__ as m; m.main()"]]
)
def test_help_names_plan_and_every_format(program):
    said = subprocess.run(
        [sys.executable, *program, "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert "gradwalk plan module:function" in said
    assert all(f"--{each} OUT" in said for each in ("html", "svg", "png", "pdf", "text"))


def test_the_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"gradwalk {gradwalk.__version__}\n"


def test_a_pdf(file, tmp_path):
    assert main([file, "--pdf", str(tmp_path / "out.pdf")]) == 0
    assert (tmp_path / "out.pdf").read_bytes().startswith(b"%PDF")
