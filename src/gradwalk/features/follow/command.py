"""The command ``python -m gradwalk run train.py``: an unchanged script, looked at."""

from __future__ import annotations

import argparse
import importlib.machinery
import io
import json
import os
import runpy
import sys
import tempfile
import types
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ...english import join_words, list_some
from ...export.disk import write_file
from ...export.open_file import SavedFile, open_graphs
from ...export.text import printable
from ...hosts.torch_import import ImportOfTorch
from ...lazily import nx
from ...plugins import load_features
from .ranks import Processes, line_of, united

if TYPE_CHECKING:
    from .follow import FollowedRun

_FAILED, _FOUND = 1, 2

_GROUPS = {
    "nan": ("nan",),
    "zero": ("zero", "dead", "vanishing"),
    "unused": ("unused", "no-gradient", "optimizer", "frozen", "cleared"),
    "update": ("unchanged", "scaled"),
    "spike": ("spike", "exploding"),
}
"""What ``--watch-for`` takes, and the kinds of findings that belong to it."""


def main(arguments: Sequence[str]) -> int:
    """Run a script as Python would, and print what was found on standard error.

    Returns the exit code of the script; with ``--strict`` 2 if it is 0 and there is a warning.
    Exits with 1 for wrong usage.
    """
    options, script = _split(arguments)
    given = _parser().parse_args(options)
    if not script:
        _parser().error("no script was given. Write run train.py, or run -m package.module.")
    follower = _Follower(given)
    code = _run(script, follower)
    found = follower.report()
    return _FOUND if given.strict and not code and found else code


class _Follower:
    """Follows the script from its ``import torch`` on."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given, self._stderr = given, sys.stderr
        self._run: FollowedRun | None = None
        self._kinds = {kind for group in given.watch_for or () for kind in _GROUPS[group]}
        self._processes = Processes.read()
        self._has_failed = False  # in the forward pass
        self._import = ImportOfTorch(self._begin)

    def begin(self) -> None:
        """Begin, now or when the script imports torch."""
        if "torch" in sys.modules:
            self._begin()
        else:
            sys.meta_path.insert(0, self._import)

    def end(self, error: BaseException | None) -> None:
        """End; ``error``: what ended the script."""
        if self._import in sys.meta_path:
            sys.meta_path.remove(self._import)
        if self._run is None:
            return
        self._run._engine.close(error)
        if error is not None and not isinstance(error, SystemExit):
            from ..failure.failure import last_failure  # noqa: PLC0415  needs torch

            failed = last_failure()
            self._has_failed = failed is not None and failed.call is not None
            if self._has_failed:
                self._print(f"{failed}.")

    def report(self) -> bool:
        """Write the files that were asked for; return whether there is a warning or an error."""
        run = self._run
        if run is None:
            self._print("the script did not import torch, so there was nothing to look at.")
            return False
        if not run._engine.judgements and not self._has_failed:
            self._print("no backward pass that an optimizer's step follows was seen.")
        found: dict[str, Any] = run.as_json()
        try:
            self._write_graph(run)
            if not self._processes.is_first:
                self._processes.leave(found)
                return False  # torchrun would end the first one
            found = self._of_all(found)
            self._write_json(found)
        except Exception as error:  # the script's exit code counts
            self._print(f"the report could not be written. {error}")
        return any(each["severity"] != "info" for each in found["findings"])

    def _of_all(self, own: dict[str, Any]) -> dict[str, Any]:
        """Add the findings of the other processes, and print those that this one has not."""
        if self._processes.size == 1:
            return own
        found = united(own, self._processes.gather())
        for finding in found["findings"]:
            if finding["severity"] == "error" and own["rank"] not in finding["ranks"]:
                continue  # its process has printed it
            if own["rank"] not in finding["ranks"]:
                self._print(f"{_ranks(finding['ranks'])}: {line_of(finding)}")
            elif len(finding["ranks"]) > 1:
                where = finding["line"] or list_some(finding["parameters"], 2)
                self._print(f"{_ranks(finding['ranks'])} agree on {finding['kind']}: {where}.")
        if len(found["ranks"]) < self._processes.size:
            self._print(f"only {_ranks(found['ranks'])} of {self._processes.size} reported.")
        return found

    def _write_json(self, found: dict[str, Any]) -> None:
        text, out = json.dumps(found, indent=2), self._given.json
        if out == "-":
            print(text)
        elif out is not None:
            write_file(out, f"{text}\n", "--json")

    def _write_graph(self, run: FollowedRun) -> None:
        """Keep the graph of the step that went wrong, else of the step that was looked at."""
        given = self._given
        if not run._kept_steps:
            if given.save or given.html:
                self._print(f"step {given.at} was not seen, so its graph was not kept.")
            return
        content, _ = run._kept_steps[max(run._kept_steps)]
        if given.save is not None:
            write_file(self._processes.path_for(given.save), content, "--save")
        if given.html is not None and self._processes.is_first:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "step.gw")
                path.write_bytes(content)
                SavedFile(open_graphs(path)).to_html(given.html)

    def _begin(self) -> None:
        try:
            # Torch is imported by the script, after what it sets for that.
            from ...result import make  # noqa: PLC0415
            from .follow import FollowedRun  # noqa: PLC0415

            load_features()
            nx.MultiDiGraph()  # imports that change the filters of warnings come before the script
            keeps = bool(self._given.save or self._given.html)
            run = make(FollowedRun, at=self._given.at, say=self._heard, keeps=keeps)
            run.__enter__()
            self._run = run
        except Exception as error:  # the script runs in any case
            self._print(f"the script is not looked at. {type(error).__name__}: {error}")

    def _heard(self, what: Any) -> None:
        from .judge import Judgement  # noqa: PLC0415
        from .run_finding import RunFinding  # noqa: PLC0415

        if isinstance(what, RunFinding):
            if self._kinds and what.kind not in self._kinds:
                assert self._run is not None
                self._run.findings.remove(what)
                return
            self._print(str(what))
        elif isinstance(what, Judgement):
            self._print(f"{what}.")
        else:
            self._print(what)

    def _print(self, text: str) -> None:
        if not self._processes.is_first:
            if not text.startswith("error"):
                return  # the first process prints the others
            text = f"rank {self._processes.rank}: {text}"
        try:
            print(f"gradwalk: {printable(text)}", file=self._stderr, flush=True)
        except (OSError, ValueError):
            return  # the script has closed it


def _run(script: Sequence[str], follower: _Follower) -> int:
    """Run a script to its end; return its exit code."""
    follower.begin()
    error: BaseException | None = None
    try:
        if script[0] == "-m":
            _run_module(script[1:])
        else:
            _run_file(script)
    except BaseException as raised:
        error = raised
    follower.end(error)
    if error is None:
        return 0
    from ...tracing.tracebacks import without_watch  # noqa: PLC0415

    error.__traceback__ = _of_script(error.__traceback__)
    without_watch(error)
    if isinstance(error, SystemExit):
        return _exit_code(error)
    if isinstance(error, Exception):
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    hook, shown = sys.excepthook, error.__traceback__

    def show(kind: type[BaseException], raised: BaseException, _: object) -> None:
        raised.__traceback__ = shown
        hook(kind, raised, shown)

    sys.excepthook = show
    raise error  # Python ends as it does for Ctrl+C


def _ranks(ranks: Sequence[int]) -> str:
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {join_words(map(str, ranks))}"


def _exit_code(error: SystemExit) -> int:
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    print(error.code, file=sys.stderr)
    return 1


def _of_script(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """Leave out the entries before the script's own."""
    at = traceback
    while at is not None:
        name = str(at.tb_frame.f_globals.get("__name__"))
        if not name.startswith("gradwalk.") and name != "runpy" and at.tb_frame.f_code.co_name:
            is_ours = at.tb_frame.f_globals is globals()
            is_runner = at.tb_frame.f_code.co_filename.startswith("<frozen")
            if not is_ours and not is_runner:
                return at
        at = at.tb_next
    return traceback


def _run_file(script: Sequence[str]) -> None:
    """Run a file as ``python file`` does, as the module ``__main__``."""
    sys.argv[:] = script
    path = os.path.abspath(script[0])  # noqa: PTH100  as Python writes it
    sys.path[0] = os.path.dirname(os.path.realpath(path))  # noqa: PTH120
    if os.path.isdir(path) or path.endswith((".zip", ".pyz")):  # noqa: PTH112
        runpy.run_path(path, run_name="__main__")
        return
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec")
    module = types.ModuleType("__main__")
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    vars(module).update(
        __file__=path, __loader__=loader, __spec__=None, __cached__=None, __builtins__=__builtins__
    )
    sys.modules["__main__"] = module
    exec(code, vars(module))


def _run_module(words: Sequence[str]) -> None:
    """Run a module as ``python -m module`` does."""
    if not words:
        _parser().error("-m was given without the name of a module.")
    sys.argv[:] = words
    sys.path[0] = os.getcwd()  # noqa: PTH109
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)


_WITH_VALUE = ("--at", "--save", "--html", "--json", "--watch-for")


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the arguments at the script: what follows is the script's own."""
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-m":
        at += 2 if words[at] in _WITH_VALUE else 1
    return list(words[:at]), list(words[at:])


class _Parser(argparse.ArgumentParser):
    """A parser whose errors exit with 1, because 2 means a finding."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(_FAILED, f"{self.prog}: {printable(message)}\n")


def _step(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a step, from 1")
    return int(text)


def _kinds(text: str) -> list[str]:
    words = text.split(",")
    for word in words:
        if word not in _GROUPS:
            raise argparse.ArgumentTypeError(f"{word!r} is not one of {', '.join(_GROUPS)}")
    return words


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m gradwalk run",
        usage="%(prog)s [options] script.py [arguments], or [options] -m module [arguments]",
        description="Run a training script as it is, look at one step, and name on standard error "
        "which parameters get no gradient, and why.",
        epilog="The script's exit code stays; with --strict, 0 becomes 2 for a warning.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--at", type=_step, default=1, metavar="STEP", help="look at this step (default: 1)")
    add("--save", metavar="OUT", help="keep the graph of that step, such as step.gw")
    add("--html", metavar="OUT", help="write a page to explore the graph of that step in")
    add("--json", metavar="OUT", help="write the report as JSON; - prints it at the end")
    add(
        "--watch-for",
        type=_kinds,
        metavar="WHAT",
        help=f"report only some of {', '.join(_GROUPS)}; separated by commas",
    )
    add("--strict", action="store_true", help="exit with 2 if there is a warning")
    return parser
