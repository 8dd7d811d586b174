"""Every writer and every reader, with every path that is not plain."""

from __future__ import annotations

import os
import stat
import threading
import warnings
from pathlib import Path

import pytest
import torch

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


def below_a_file(folder: Path) -> Path:
    (folder / "file").touch()
    return folder / "file" / "graph"


def dangling(folder: Path) -> Path:
    (folder / "link").symlink_to(folder / "missing" / "graph")
    return folder / "link"


BAD = {
    "a folder": Path,
    "an empty path": lambda folder: "",
    "a long name": lambda folder: folder / ("n" * 300),
    "no folder": lambda folder: folder / "missing" / "graph",
    "below a file": below_a_file,
    "a link to nowhere": dangling,
    "a number": lambda folder: 7.5,
    "bytes": lambda folder: b"graph",
    "a null": lambda folder: "a\0b",
    "half a character": lambda folder: "\ud800",
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


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null"])
def test_a_device_is_not_read(path):
    with pytest.raises(OSError, match="regular file") as caught:
        load(path)
    says_so(caught.value)


@pytest.mark.parametrize("path", ["a long name", "no folder", "a folder"])
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
        WRITERS[how](widget, link)
        assert link.is_symlink()
        assert target.read_bytes() not in (b"", b"before")
        assert stat.S_IMODE(target.stat().st_mode) == 0o640
        assert [each.name for each in target.parent.iterdir()] == ["file"]

    def test_a_pipe_without_a_reader_is_refused(self, widget, how, tmp_path):
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        with pytest.raises(OSError, match="Nobody reads from this pipe: start the reader first"):
            WRITERS[how](widget, pipe)
        assert [each.name for each in tmp_path.iterdir()] == ["pipe"]

    def test_a_pipe_with_a_reader_gets_everything(self, widget, how, tmp_path):
        pipe, read = tmp_path / "pipe", []
        os.mkfifo(pipe)
        reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
        reader.start()
        while True:  # until it has opened the pipe
            try:
                WRITERS[how](widget, pipe)
            except OSError:
                continue
            break
        reader.join()
        plain = tmp_path / "plain"
        WRITERS[how](widget, plain)
        assert len(read[0]) == pytest.approx(plain.stat().st_size, rel=0.01)

    def test_a_link_to_a_file_that_is_not_there_yet(self, widget, how, tmp_path):
        link = tmp_path / "latest"
        link.symlink_to(tmp_path / "file")
        WRITERS[how](widget, link)
        assert link.is_symlink()
        assert (tmp_path / "file").stat().st_size > 0

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
