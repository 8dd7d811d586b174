"""The pages of the documentation: their programs run, and every public name is in the reference.

Cells of pages and lessons run while the site is built, and an error fails the build. Here run the
programs that the build only shows.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from notebook_cells import open_notebook
from torch import nn
from torch.distributed.fsdp import fully_shard

import gradwalk
from gradwalk import GraphWidget

DOCS = Path(__file__).parents[2] / "docs"
NOT_RUN = {
    "howto/ranks.md",  # runs once for each rank, below; its pipeline is in tests/features/ranks
    "reference/hosts.md",  # tests/e2e runs its recipes in the hosts
}
PAGES = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if "_build" not in page.parts and page.relative_to(DOCS).as_posix() not in NOT_RUN
    if "```python\n" in page.read_text(encoding="utf-8")
]


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x).relu()
        return x


def given() -> dict[str, Any]:
    """The variables that a reader has."""
    x = torch.tensor(2.0, requires_grad=True)
    loss = (x * 3).exp()
    widget = GraphWidget(loss)
    widget.backward()
    return {
        "torch": torch,
        "gradwalk": gradwalk,
        "model": Layers(),
        "fully_shard": fully_shard,
        "loader": [torch.ones(2, 4)] * 4,
        "batch": torch.ones(2, 4),
        "loss_fn": lambda output: output.pow(2).mean(),
        "loss": loss,
        "widget": widget,
        "lesson": widget,
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_the_programs_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pages").mkdir()
    variables = given()
    text = re.sub(r"^:tags: .*\n", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    programs = re.findall(r"```(?:\{code-cell\} )?python\n(.*?)```", text, re.DOTALL)
    if any(program.strip() == "%load_ext gradwalk" for program in programs):
        with open_notebook(tmp_path, monkeypatch) as notebook:
            notebook.shell.user_ns.update(variables)
            for program in programs:
                notebook.run(program)
        return
    for nr, program in enumerate(programs):
        file = f"{page.stem}-{nr}.py"
        code = re.sub(r"^[!%].*$", "", program, flags=re.MULTILINE)
        linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
        exec(compile(code, file, "exec"), variables)


def test_the_programs_for_several_ranks_run(
    as_rank: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "howto" / "ranks.md").read_text(encoding="utf-8")
    on_each, at_home, *_ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    variables = given()
    for rank in (0, 1):
        as_rank(rank)
        exec(on_each, {**variables, "model": lambda x: variables["model"](x).sum(), "rank": rank})
    exec(at_home, variables)
    assert variables["widget"].rank == 1


def test_the_reference_has_every_public_name() -> None:
    pages = (DOCS / "reference" / "api").glob("*.md")
    reference = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    documented = set(re.findall(r"^\.\. auto\w+:: ([\w.]+)$", reference, re.MULTILINE))
    names = set(gradwalk.__all__) - {"integrations", "results", "testing", "types"}
    names |= {f"gradwalk.results.{name}" for name in gradwalk.results.__all__}
    assert names - documented == set()
    assert {"assert_gradients", "gradwalk.types"} <= documented
