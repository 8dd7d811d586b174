"""The teaching notebooks run from top to bottom, and are kept without outputs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest
from jupyter_client import AsyncKernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
# They take longer than all others together.
LONG = ("16_many_ranks", "11_will_it_fit")
TO_RUN = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.full] if path.stem in LONG else [])
    for path in NOTEBOOKS
]

# Makes the kernel forget a notebook: importing torch takes longer than most notebooks do.
SOLUTIONS = {
    "01_first_graph": [("answer = ...", "answer = 12")],
    "02_step_through_backward": [("answer = ...", "answer = 4")],
    "03_autograd_by_hand": [
        ("times = ...", "times = 2"),
        (
            "# Value.exp = lambda self: ...",
            "Value.exp = lambda self: Value(math.exp(self.data), [(self, math.exp(self.data))])",
        ),
    ],
    "04_vectors_and_functions": [("answer = ...", "answer = [2 / 3, 4 / 3, 2]")],
    "05_requires_grad_vs_detach": [("answer = ...", 'answer = {"b", "c"}')],
    "06_classic_mistakes": [("torch.tensor((w * x).item())", "w * x")],
    "07_errors_in_backward": [("(state + 1)", "(state.detach() + 1)")],
    "08_laboratory": [("answer = ...", "answer = -0.5")],
    "09_a_real_model": [("answer = ...", 'answer = "6"')],
    "10_first_aid": [
        (
            """optimizer = torch.optim.AdamW(model.head.parameters(), lr=1e-2)
model.head = nn.Linear(16, 5)
""",
            """model.head = nn.Linear(16, 5)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
""",
        )
    ],
    "11_will_it_fit": [("answer = ...", "answer = 1024")],
    "12_fine_tuning": [
        ("(self.b @ self.a).detach()", "self.b @ self.a"),
        ("    model.requires_grad_(False)\n", ""),
        ("    for i in (0, 2):\n", "    model.requires_grad_(False)\n    for i in (0, 2):\n"),
    ],
    "13_dynamic_and_static": [("answer = ...", "answer = 4")],
    "14_static_beside_dynamic": [("answer = ...", 'answer = {"0.weight", "0.bias"}')],
    "15_compiled": [("answer = ...", "answer = 3")],
    "16_many_ranks": [("answer = ...", "answer = 1")],
}
"""What a learner changes in the cells of each lesson's exercise, whose answer is then right."""

FORGET = """\
import ipywidgets
ipywidgets.Widget.close_all()
get_ipython().extension_manager.unload_extension("gradwalk")
get_ipython().reset(new_session=False)
__import__("gc").collect()"""
# A lesson's picture is made before the backward that the lesson is about: one that is made after it
# can say nothing but that it cannot run again.
LATE = """\
from gradwalk import GraphWidget
from ipywidgets.widgets.widget import _instances
shown = [each for each in _instances.values() if isinstance(each, GraphWidget)]
freed = [each for each in shown if each.state["freed"] and not each.steps]
late = [each for each in freed if each.state["runs"] == 0]
assert not late, [repr(each) for each in late]"""
# What torch.compile says under Python 3.13.0, of that Python alone.
SLOW_GUARDS = "RuntimeWarning: Guards may run slower on Python 3.13.0"


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.fixture(scope="module")
def run() -> Iterator[Callable[[NotebookNode], None]]:
    """Runs a notebook in a kernel that has forgotten what ran before."""
    kernel, loop = AsyncKernelManager(), asyncio.new_event_loop()

    async def execute(notebook: NotebookNode) -> None:
        where = {"metadata": {"path": NOTEBOOKS[0].parent}}
        client = NotebookClient(notebook, km=kernel, timeout=600, resources=where)
        try:
            await client.async_execute()
        finally:
            client.kc.stop_channels()

    def run_one(notebook: NotebookNode) -> None:
        loop.run_until_complete(execute(notebook))
        after = [nbformat.v4.new_code_cell(code) for code in (LATE, FORGET)]
        forget = nbformat.v4.new_notebook(cells=after)
        loop.run_until_complete(execute(forget))

    yield run_one
    # Browser tests of the same process may have left a loop that is marked as running.
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        loop.run_until_complete(kernel.shutdown_kernel(now=True))
        loop.close()
    finally:
        asyncio._set_running_loop(running)


def exercise(notebook: NotebookNode) -> list[NotebookNode]:
    """The cells of the exercise, with which a lesson ends."""
    heads = [cell.source.startswith("## Exercise") for cell in notebook.cells]
    assert heads.count(True) == 1, "a lesson has one exercise"
    start = heads.index(True)
    assert "<summary>Solution" in notebook.cells[-1].source
    return [cell for cell in notebook.cells[start:] if cell.cell_type == "code"]


def solved(stem: str, cells: list[NotebookNode]) -> list[NotebookNode]:
    sources = [cell.source for cell in cells]
    for old, new in SOLUTIONS[stem]:
        assert sum(source.count(old) for source in sources) == 1, old
        sources = [source.replace(old, new) for source in sources]
    return [nbformat.v4.new_code_cell(source) for source in sources]


def marks(cells: list[NotebookNode]) -> int:
    """How many lines of the cells' output say that an answer is right."""
    texts = [output.get("text", "") for cell in cells for output in cell.get("outputs", [])]
    return "".join(texts).count("right")


@pytest.mark.parametrize("path", TO_RUN)
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning:zmq", "ignore::DeprecationWarning:jupyter_client"
)
def test_a_notebook_runs(path: Path, run: Callable[[NotebookNode], None]) -> None:
    notebook = nbformat.read(path, as_version=4)
    task = exercise(notebook)
    answers = solved(path.stem, task)
    notebook.cells += answers
    run(notebook)
    assert marks(task) == 0
    assert marks(answers) == sum("right" in cell.source for cell in answers)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.get("name") != "stderr" or SLOW_GUARDS in output["text"], output["text"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.parametrize(("path", "following"), [*pairwise(NOTEBOOKS)])
def test_lessons_are_read_in_the_order_of_their_files(path: Path, following: Path) -> None:
    (head, *_) = nbformat.read(path, as_version=4).cells
    (line,) = re.findall(r"\*\*Next\*\*: .*\((.*?)\)", head.source)
    assert line == following.name
    assert f"notebooks/{path.name}" in head.source  # in Colab


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_links_to_the_page_with_its_pictures(path: Path) -> None:
    page = f"(https://gradwalk.github.io/gradwalk/tutorials/{path.stem}.html)"
    assert page in nbformat.read(path, as_version=4).cells[0].source
