"""Every public function and class says what it takes, returns and raises, and shows it."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
import pydoc
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ipywidgets
import pytest
import torch

import gradwalk

pytestmark = pytest.mark.one_python

SECTIONS = ("Args", "Returns", "Raises", "Example", "Attributes", "Yields")
THEIRS = {kind: {*dir(kind)} - {"close"} for kind in (ipywidgets.DOMWidget, ipywidgets.interactive)}
"""Names of ipywidgets, some of which are overridden for it alone."""

FUNCTIONS = sorted(name for name in gradwalk.__all__ if inspect.isfunction(getattr(gradwalk, name)))
RESULTS = gradwalk.results.__all__
CLASSES = sorted(["GraphWidget", *RESULTS])


def named(name: str) -> Any:
    found: Any = gradwalk.results if name.partition(".")[0] in RESULTS else gradwalk
    for part in name.split("."):
        found = getattr(found, part)
    return found


def methods() -> Iterator[str]:
    for name in CLASSES:
        whole = named(name)
        theirs = {
            each for kind, names in THEIRS.items() if issubclass(whole, kind) for each in names
        }
        for kind in whole.__mro__:
            for method, value in vars(kind).items():
                is_ours = kind.__module__.startswith("gradwalk") and inspect.isfunction(value)
                if is_ours and not method.startswith("_") and method not in theirs:
                    yield f"{name}.{method}"


CALLS = [*FUNCTIONS, "GraphWidget.__init__", *methods()]


def test_results_are_classes_and_all_else_is_on_top():
    assert all(inspect.isclass(named(name)) for name in RESULTS)
    assert [name for name in gradwalk.__all__ if inspect.isclass(named(name))] == ["GraphWidget"]
    assert set(RESULTS) <= set(dir(gradwalk.results))
    with pytest.raises(AttributeError, match=r"module 'gradwalk.results' has no attribute 'plan'"):
        _ = gradwalk.results.plan


def sections(called: Callable[..., Any]) -> dict[str, str]:
    """The sections of a docstring; the first paragraphs as ""."""
    parts = re.split(rf"^({'|'.join(SECTIONS)}):+$", inspect.getdoc(called) or "", flags=re.M)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def documented(parameter: inspect.Parameter) -> str:
    """How an argument is written under ``Args:``: its name and its type."""
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    kind = parameter.annotation
    if parameter.default is not parameter.empty:
        kind = (kind.removesuffix(" | None") if parameter.default is None else kind) + ", optional"
    return f"{stars}{parameter.name} ({kind})"


def row(name: str) -> dict[str, bool]:
    """The row of a function in the table."""
    called = named(name)
    said = sections(called)
    signature = inspect.signature(called)
    own = [each for each in signature.parameters.values() if each.name != "self"]
    annotations = [*(each.annotation for each in own), signature.return_annotation]
    typed = not any(each is signature.empty or "Any" in each for each in annotations)
    arguments = dict(
        re.findall(r"^    (\*{0,2}\w+ \(.+?\)): (.+(?:\n     .+)*)", said.get("Args", ""), re.M)
    )
    gives = signature.return_annotation not in ("None", None)
    return {
        "one sentence": re.match(r"[^\n]+(\n[^\n]+)?[.]\n*(\n|$)", said[""]) is not None,
        "typed": typed,
        "args": list(arguments) == [documented(each) for each in own],
        "defaults": all(
            re.search(r"\b(None|[Dd]efault)\b", text)
            for said, text in arguments.items()
            if said.endswith(", optional)")
        ),
        "returns": bool({"Returns", "Yields"} & set(said)) == gives
        or name == "watch",  # gives nothing
        "raises": "Raises" in said or not own,
        "example": "Example" in said or name == "GraphWidget.__init__",  # its class has it
    }


def test_the_table_is_all_yes():
    table = {name: row(name) for name in CALLS}
    missing = {
        name: [what for what, is_there in said.items() if not is_there]
        for name, said in table.items()
        if not all(said.values())
    }
    assert missing == {}


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_says_what_its_attributes_are(name):
    said = sections(named(name))
    assert said[""].strip().endswith(".")
    assert "Attributes" in said


EXAMPLES = Path(__file__).with_name("typed_examples.py")


@pytest.mark.full  # `make check` is as strict with it, without a cache of its own
def test_a_program_that_uses_every_function_passes_mypy_strict(tmp_path):
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        f"--cache-dir={tmp_path}",
    ]
    done = subprocess.run([*command, str(EXAMPLES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_that_program_uses_every_function():
    text = EXAMPLES.read_text(encoding="utf-8")
    public = {*gradwalk.__all__, *RESULTS} - {"integrations"}
    names = {name for name in public if not re.search(rf"\b{name}\b", text)}
    methods = {name.rpartition(".")[2] for name in CALLS if "." in name and "__" not in name}
    assert (names, {name for name in methods if f".{name}(" not in text}) == (set(), set())


def test_nothing_public_returns_what_is_not_public():
    for name in CALLS:
        annotation = str(inspect.signature(named(name)).return_annotation)
        for word in re.findall(r"\b[A-Z]\w+", annotation):
            known = word in CLASSES or hasattr(torch, word)
            assert known or word in {
                *("Path", "MultiDiGraph", "Digraph", "None", "DataFrame", "Iterator"),
            }, (name, word)


def test_traits_and_functions_share_no_name():
    functions = {*FUNCTIONS, "integrations", "results", "testing", "types"}
    for widget in (gradwalk.GraphWidget, gradwalk.results.CompareWidget):
        assert functions & set(widget.class_trait_names()) == set()


def test_docstrings_name_public_things():
    for name in [*CALLS, *CLASSES]:
        text = inspect.getdoc(named(name)) or ""
        assert re.findall(r"[Aa]s for `to_\w+`", text) == [], name
        assert re.findall(r"`gradwalk\.(?!results\.)(?:[a-z_]+\.)+\w+`", text) == [], name


@pytest.mark.parametrize("name", ["GraphWidget", "CompareWidget"])
def test_help_shows_our_own_methods(name):
    kind = named(name)
    text = pydoc.plain(pydoc.render_doc(kind))
    for method in ("to_svg", "backward", "step", "diagnose", "close"):
        assert f"  {method}(self" in text
    for theirs in ("add_traits", "hold_trait_notifications", "get_manager_state", "send_state"):
        assert f"  {theirs}(" not in text
    assert "(widget, " not in text  # it is `self`

    mine: Any = type("Mine", (kind,), {})  # a subclass has all traits
    assert set(mine.class_trait_names()) == set(kind.class_trait_names())


@pytest.mark.parametrize("name", RESULTS)
def test_only_functions_make_results(name):
    kind = named(name)
    with pytest.raises(TypeError, match=rf"^{name}\(\) makes nothing\. Call \w+\("):
        kind()
    with pytest.raises(TypeError, match="makes nothing"):
        kind("kind", "error", [0])


def test_the_package_makes_results_with_make():
    results = {*RESULTS} - {"Place"}  # there are other places
    calls = [
        f"{path.name}:{node.lineno}"
        for path in Path(gradwalk.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) in results
    ]
    assert calls == []


def test_results_can_be_copied_and_pickled():
    x = torch.zeros(3, requires_grad=True)
    (finding, *_) = gradwalk.diagnose(gradwalk.record(x.sqrt().sum()))
    assert copy.deepcopy(finding) == pickle.loads(pickle.dumps(finding)) == finding
