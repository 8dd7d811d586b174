"""The teaching notebooks run from top to bottom, and are kept without outputs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest
from jupyter_client import AsyncKernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode

SIMULATED = "torch.distributed._local_tensor"
NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
# They take longer than all others together.
LONG = ("15_many_ranks", "11_will_it_fit")
TO_RUN = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.full] if path.stem in LONG else [])
    for path in NOTEBOOKS
]

# Makes the kernel forget a notebook: importing torch takes longer than most notebooks do.
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


@pytest.mark.parametrize("path", TO_RUN)
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning:zmq", "ignore::DeprecationWarning:jupyter_client"
)
def test_a_notebook_runs(path: Path, run: Callable[[NotebookNode], None]) -> None:
    notebook = nbformat.read(path, as_version=4)
    run(notebook)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.get("name") != "stderr" or SLOW_GUARDS in output["text"], output["text"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_links_to_the_page_with_its_pictures(path: Path) -> None:
    page = f"(https://gradwalk.github.io/gradwalk/tutorials/{path.stem}.html)"
    assert page in nbformat.read(path, as_version=4).cells[0].source
