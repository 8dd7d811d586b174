"""``%load_ext gradwalk`` before ``import torch``, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SHELL = """
import sys
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
shell.colors = "nocolor"
finders = list(sys.meta_path)

def run(*lines, fails=False):
    done = shell.run_cell("\\n".join(lines), store_history=True)
    assert done.success is not fails, done
    assert sys.meta_path == finders
    return done.result

def where(name):
    from gradwalk import capture
    nodes = capture(shell.user_ns[name]).nodes(data=True)
    return [str(data["source"]).rpartition(":")[2] for _, data in nodes if data["kind"] == "op"]

run("%load_ext gradwalk", "import sys")
assert "torch" not in sys.modules
"""


def process(program: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SHELL + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


PROGRAM = "w = torch.ones(1, requires_grad=True); y = w * 2"
FUNCTION = ["import importlib.util", "def program():", "  importlib.util.find_spec('torch')"]
FUNCTION += ["  import torch.nn, torch", f"  {PROGRAM}", "  return y", "y = program()"]


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (["import os", "os.environ['SET_BEFORE'] = '1'", "import torch", PROGRAM], "4"),
        (["%run mine.py"], "2"),
        (FUNCTION, "5"),
        (["import asyncio", "await asyncio.sleep(0)", "from mine import torch, y"], "2"),
    ],
    ids=["a line", "a script", "a function", "a module"],
)
def test_cells_are_watched_from_the_import_on(lines, line, tmp_path):
    (tmp_path / "mine.py").write_text(f"import torch\n{PROGRAM}\n")
    process(
        f"""
        run(*{lines!r})
        import torch
        assert where("y") == [{line!r}], where("y")
        assert "exec_module" not in vars(torch.__loader__)
        assert type(torch.__loader__).__name__ == "SourceFileLoader"
        assert torch.overrides._get_current_function_mode_stack() == []
        run("z = w * 2" if "w" in shell.user_ns else "z = y * 2")
        assert where("z")[0] == "1"
        """,
        tmp_path,
    )


def test_it_ends_before_torch_is_imported(tmp_path):
    process(
        """
        run("%unload_ext gradwalk", "import torch", "y = torch.ones(1, requires_grad=True) * 2")
        from gradwalk.tracing.records import has_watched
        assert not has_watched()
        """,
        tmp_path,
    )


def test_another_thread_that_imports_torch_is_not_watched(tmp_path):
    process(
        """
        run("import threading", "def preload():", "  import torch", "  global stack",
            "  stack = torch.overrides._get_current_function_mode_stack()",
            "thread = threading.Thread(target=preload)", "thread.start(); thread.join()")
        assert shell.user_ns["stack"] == []
        run("import torch", "w = torch.ones(1, requires_grad=True); y = w * 2")
        assert where("y") == ["2"]
        """,
        tmp_path,
    )


def test_a_measured_cell_that_imports_torch_is_not_watched(tmp_path):
    process(
        """
        run("%%time", "import torch", "w = torch.ones(1, requires_grad=True); y = w * 2")
        from gradwalk.tracing.records import has_watched
        assert not has_watched()
        """,
        tmp_path,
    )


def test_without_torch_there_is_one_sentence_and_the_usual_error(tmp_path):
    program = """
        import importlib.util, sys
        class Hidden:
            def find_spec(self, name, *_):
                if name.partition(".")[0] == "torch":
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        finders.insert(0, Hidden())
        sys.meta_path[:] = finders
        print("begin")
        run("%reload_ext gradwalk")
        run("import torch", fails=True)
        run("import gradwalk; gradwalk.GraphWidget", fails=True)
        print("end")
        run("1 + 1")
    """
    said = process(program, tmp_path).partition("begin\n")[2].partition("end\n")[0]
    assert said.startswith(
        "gradwalk watches PyTorch, which is not installed here. Install it (%pip"
    )
    assert "ModuleNotFoundError: No module named 'torch'" in said
    assert "cell_watch" not in said


@pytest.mark.parametrize("line", ["import missing_library", "raise OSError('no missing_library')"])
def test_a_torch_that_cannot_be_imported_fails_as_without_it(line, tmp_path):
    (tmp_path / "torch.py").write_text(line)
    program = """
        def frames():
            run("import torch", fails=True)
            found, traceback = [], sys.last_traceback
            while traceback is not None:
                code, traceback = traceback.tb_frame.f_code, traceback.tb_next
                found.append((code.co_filename.partition("ipython-input")[0], code.co_name))
            return found

        watched = [frames(), frames()]
        run("%unload_ext gradwalk")
        assert watched == [frames(), frames()], watched
    """
    assert "missing_library" in process(program, tmp_path)


def test_what_it_imports_by_itself_is_small(tmp_path):
    program = """
        ours = [name for name in sys.modules if name.partition(".")[0] == "gradwalk"]
        large = ("numpy", "ipywidgets", "networkx")
        print(len(ours), *(name for name in large if name in sys.modules))
    """
    count, *others = process(program, tmp_path).splitlines()[-1].split()
    assert int(count) <= 12
    assert others == []
