"""Every writer and every reader, with every path that is not plain."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import threading
import time
import warnings
from pathlib import Path

import pytest
import torch
from fresh import fresh

from gradwalk import GraphWidget, load, save
from gradwalk.__main__ import main

WRITERS = {
    "to_svg": lambda widget, path: widget.to_svg(path),
    "to_png": lambda widget, path: widget.to_png(path),
    "to_pdf": lambda widget, path: widget.to_pdf(path),
    "to_html": lambda widget, path: widget.to_html(path),
    "to_json": lambda widget, path: widget.to_json(path),
    "to_dot": lambda widget, path: widget.to_dot(path),
    "save": save,
}


@pytest.fixture(scope="module")
def widget():
    x = torch.ones(2, requires_grad=True)
    made = GraphWidget((x * 2).sum(), names={"x": x})
    yield made
    made.close()


@pytest.fixture(scope="module")
def saved(widget, tmp_path_factory) -> Path:
    return save(widget, tmp_path_factory.mktemp("saved") / "run.gw")


def loop(folder: Path) -> Path:
    (folder / "a").symlink_to(folder / "b")
    (folder / "b").symlink_to(folder / "a")
    return folder / "a"


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def bound(folder: Path) -> Path:
    here = os.open(".", os.O_RDONLY)
    os.chdir(folder)  # a socket's path has room for 100 characters only
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("socket")
    finally:
        os.fchdir(here)
        os.close(here)
    return folder / "socket"


def below_a_file(folder: Path) -> Path:
    (folder / "file").touch()
    return folder / "file" / "graph"


def dangling(folder: Path) -> Path:
    (folder / "link").symlink_to(folder / "missing" / "graph")
    return folder / "link"


BAD = {
    "a folder": Path,
    "an empty path": lambda folder: "",
    "a NUL": lambda folder: f"{folder}/a\0b",
    "a NUL alone": lambda folder: "\0",
    "a lone surrogate": lambda folder: f"{folder}/a\ud800b",
    "a folder with a lone surrogate": lambda folder: f"{folder}/\ud800/graph",
    "nobody's home": lambda folder: "~nosuchuser/graph",
    "nobody": lambda folder: "~nosuchuser",
    "a long name": lambda folder: folder / ("n" * 300),
    "a long path": lambda folder: f"{folder}{'/folder' * 1000}/graph",
    "a long folder": lambda folder: folder / ("n" * 300) / "graph",
    "no folder": lambda folder: folder / "missing" / "graph",
    "below a file": below_a_file,
    "a loop of links": loop,
    "a link to nowhere": dangling,
    "a pipe that nobody serves": pipe,
    "a socket": bound,
    "a number": lambda folder: 7.5,
    "bytes": lambda folder: b"graph",
    "None of a kind": lambda folder: object(),
}


def says_so(error: Exception) -> None:
    text = str(error)
    assert isinstance(error, (OSError, ValueError, TypeError))
    assert not isinstance(error, UnicodeError)
    assert text.endswith("."), text
    assert text[:1].isupper() or text.startswith(("to_", "save()", "load()", "'")), text
    assert "[Errno" not in text
    assert len(text) < 600
    text.encode()  # it can be printed anywhere


@pytest.mark.parametrize("how", WRITERS)
@pytest.mark.parametrize("path", BAD)
def test_a_path_that_cannot_be_written_gets_a_sentence(widget, how, path, tmp_path):
    made = BAD[path](tmp_path)
    before = sorted(each.name for each in tmp_path.iterdir())
    with pytest.raises((OSError, ValueError, TypeError)) as caught:
        WRITERS[how](widget, made)
    says_so(caught.value)
    assert how in str(caught.value)
    assert sorted(each.name for each in tmp_path.iterdir()) == before


@pytest.mark.parametrize("path", BAD)
def test_a_path_that_cannot_be_read_gets_a_sentence(path, tmp_path):
    with pytest.raises((OSError, ValueError, TypeError)) as caught:
        load(BAD[path](tmp_path))
    says_so(caught.value)


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/proc/self/mem"])
def test_a_device_is_not_read(path):
    with pytest.raises((OSError, ValueError)) as caught:
        load(path)
    says_so(caught.value)


@pytest.mark.parametrize(
    "path", ["a NUL", "a lone surrogate", "nobody's home", "a long name", "no folder", "a folder"]
)
def test_the_command_line_says_it_too(saved, path, tmp_path, capsys):
    made = str(BAD[path](tmp_path))
    for arguments in ([made], [str(saved), "--html", made], [str(saved), "--svg", made]):
        assert main(arguments) == 1
        shown, said = capsys.readouterr()
        assert shown == ""
        assert said.endswith(".\n")
        assert "Traceback" not in said


@pytest.mark.parametrize("how", WRITERS)
class TestWhatIsNoPlainFile:
    def test_a_link_stays_and_its_file_is_replaced(self, widget, how, tmp_path):
        target, link = tmp_path / "far" / "file", tmp_path / "latest"
        target.parent.mkdir()
        target.write_bytes(b"before")
        target.chmod(0o640)
        link.symlink_to(Path("far") / "file")
        with pytest.warns(UserWarning, match="has replaced"):
            WRITERS[how](widget, link)
        assert link.is_symlink()
        assert target.read_bytes() not in (b"", b"before")
        assert stat.S_IMODE(target.stat().st_mode) == 0o640
        assert [each.name for each in target.parent.iterdir()] == ["file"]

    def test_a_link_to_a_file_that_is_not_there_yet(self, widget, how, tmp_path):
        link = tmp_path / "latest"
        link.symlink_to(tmp_path / "file")
        WRITERS[how](widget, link)
        assert link.is_symlink()
        assert (tmp_path / "file").stat().st_size > 0

    def test_a_pipe_is_written_through(self, widget, how, tmp_path):
        made = pipe(tmp_path)
        read: list[bytes] = []
        reader = threading.Thread(target=lambda: read.append(made.read_bytes()), daemon=True)
        reader.start()
        while True:
            with contextlib.suppress(OSError):  # the reader has not come that far
                WRITERS[how](widget, made)
                break
            time.sleep(0.01)
        reader.join(60)
        WRITERS[how](widget, tmp_path / "file")
        assert len(read[0]) == (tmp_path / "file").stat().st_size
        assert stat.S_ISFIFO(made.stat().st_mode)

    def test_a_device_is_written_through(self, widget, how):
        before = Path("/dev/null").stat()
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # nothing was replaced
            WRITERS[how](widget, "/dev/null")
        after = Path("/dev/null").stat()
        assert (after.st_ino, after.st_mode, after.st_rdev) == (
            before.st_ino,
            before.st_mode,
            before.st_rdev,
        )

    def test_a_name_as_long_as_names_may_be(self, widget, how, tmp_path):
        file = tmp_path / ("n" * 255)
        WRITERS[how](widget, file)
        assert [each.name for each in tmp_path.iterdir()] == [file.name]

    def test_a_name_that_is_no_text(self, widget, how, tmp_path):
        file = tmp_path / os.fsdecode(b"caf\xe9")
        WRITERS[how](widget, file)
        with pytest.warns(UserWarning, match="has replaced"):
            WRITERS[how](widget, file)
        if how == "save":
            assert load(file).model == widget.model


def test_a_device_that_is_full_says_so(widget):
    with pytest.raises(OSError, match=r"No space left.*not a regular file"):
        widget.to_json("/dev/full")
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


@pytest.mark.parametrize("mode", ["wb", "ab"])
def test_standard_output_goes_where_the_shell_sent_it(saved, mode, tmp_path):
    out = tmp_path / "out"
    out.write_bytes(b"before\n")
    fresh(
        f"""
        import os, runpy
        with open({str(out)!r}, {mode!r}) as stream:
            os.dup2(stream.fileno(), 1)
        sys.argv = ["gradwalk", {str(saved)!r}, "--svg", "/dev/stdout", "--text", "-"]
        runpy.run_module("gradwalk", run_name="__main__", alter_sys=True)
        """
    )
    lines = out.read_text().splitlines()
    assert (lines[0] == "before") == (mode == "ab")
    assert sum(line.startswith("<svg") for line in lines) == 1
    assert sum(line.startswith("3 nodes, 2 edges") for line in lines) == 1
