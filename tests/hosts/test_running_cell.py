"""Whether a thread runs the code of a cell."""

from __future__ import annotations

from notebook_cells import open_notebook

from gradwalk.hosts.ipython import runs_cell


def test_it_is_known_of_each_thread(tmp_path, monkeypatch):
    assert not runs_cell()
    with open_notebook(tmp_path, monkeypatch) as notebook:
        assert not runs_cell()
        assert notebook.run("from gradwalk.hosts.ipython import runs_cell", "runs_cell()")
        assert notebook.run("import asyncio", "await asyncio.sleep(0)", "runs_cell()")
        assert (
            notebook.run("def inner(): return runs_cell()", "[inner() for _ in 'ab']") == [True] * 2
        )
        found = notebook.run(
            "import threading",
            "found = []",
            "thread = threading.Thread(target=lambda: found.append(runs_cell()))",
            "thread.start(); thread.join()",
            "found",
        )
        assert found == [False]
        assert not runs_cell()
