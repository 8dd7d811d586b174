"""Several ranks as one picture in JupyterLab: another is picked, and its numbers are torch's."""

from __future__ import annotations

from bar import drawn, prints, widget
from lab import (
    Lab,
    Watched,
    eventually,
    open_notebook,
    output_text,
    run_cell,
    wait_until_at_rest,
)
from playwright.sync_api import Page, expect

# One process says that it is each rank in turn; the files are those that real ones would write.
RANKS = """\
import tempfile
from pathlib import Path
from unittest import mock
import torch
from torch import nn
import gradwalk
folder = Path(tempfile.mkdtemp())
def gradient(rank):
    torch.manual_seed(0)
    net = nn.Linear(3, 1)
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(rank))
    loss = net(x).square().mean()
    return net, loss
for rank in range(3):
    net, loss = gradient(rank)
    one = gradwalk.GraphWidget(loss, names={"net": net, "loss": loss})
    loss.backward()
    with mock.patch.multiple(torch.distributed, is_initialized=lambda: True,
                             get_rank=lambda: rank, get_world_size=lambda: 3):
        gradwalk.save(one, folder / f"run-{rank}.gw")
    one.close()
w = gradwalk.load(str(folder / "run-*.gw"))
w"""

OF_TORCH = """\
net, loss = gradient(2)
loss.backward()
print(f"{net.bias.grad.item():.4g}", f"{loss.item():.4g}")"""


def shown(page: Page, name: str) -> list[str]:
    """The texts of the card with a name, with the signs of numbers as Python has them."""
    card = widget(page).locator(".gw-node", has=page.get_by_text(name, exact=True)).first
    index = card.get_attribute("data-node")
    texts = card.locator("text").all_text_contents()
    beside = widget(page).locator(f'.gw-gradient[data-beside="{index}"] text').all_text_contents()
    return [text.replace("\u2212", "-").strip("[]") for text in [*texts, *beside]]


def place(page: Page) -> list[str | None]:
    nodes = widget(page).locator(".gw-node").all()
    return [node.get_attribute("transform") for node in nodes]


def test_another_rank_is_picked_by_keyboard_and_shows_its_own_numbers(
    watched: Watched, lab: Lab
) -> None:
    open_notebook(
        lab, watched.page, lab.write("ranks.ipynb", RANKS, OF_TORCH, "print(w.rank)", "w.rank = 0")
    )
    page = watched.page
    run_cell(page, 0)
    expect(widget(page).locator(".gw-node").first).to_be_visible()
    choice = widget(page).get_by_role("combobox", name="Rank whose graph and numbers are shown")
    expect(choice).to_have_value("0")
    # A bar for each rank, on each node.
    nodes = drawn(page, ".gw-node[data-kind=leaf], .gw-node[data-kind=op]")
    expect(drawn(page, ".gw-rank-bar")).to_have_count(3 * nodes.count())
    nodes.filter(has_text="net.bias").click()
    expect(widget(page).locator(".gw-panel")).to_contain_text("3 ranks")
    wait_until_at_rest(page)
    before = place(page)

    choice.focus()
    choice.press("ArrowDown")
    choice.press("ArrowDown")
    expect(choice).to_have_value("2")
    bias, loss = torch_says(page)
    eventually(lambda: bias in shown(page, "net.bias"))
    eventually(lambda: loss in shown(page, "loss"))
    expect(widget(page).locator(".gw-bar-text")).to_contain_text("rank 2")
    expect(widget(page).locator(".gw-panel .gw-title")).to_have_text("net.bias")
    expect(widget(page).locator(".is-ranks [aria-current]")).to_contain_text("2")
    wait_until_at_rest(page)
    assert place(page) == before
    prints(page, 2, "2")

    # And from Python.
    prints(page, 3, "")
    expect(choice).to_have_value("0")


def torch_says(page: Page) -> tuple[str, str]:
    """The gradient of the bias and the loss of rank 2, of a program of their own."""
    run_cell(page, 1)
    bias, loss = output_text(page, 1).split()
    return bias, loss
