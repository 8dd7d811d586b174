"""Compiled code in JupyterLab: a double click opens it in place, another one closes it."""

from __future__ import annotations

import re

from bar import at_step, bar, drawn, press, prints, widget
from lab import Lab, Watched, open_notebook, run_cell, wait_until_at_rest
from playwright.sync_api import expect

PROGRAM = """\
import torch
from torch import nn
from gradwalk import GraphWidget
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
run = torch.compile(net, backend="aot_eager")
w = GraphWidget(run(torch.randn(4, 2)).sum(), names=net)
w"""

CALLS = "print(sum(node['kind'] == 'call' for node in w.model['nodes']))"
OPS = "print('aten.tanh_backward.default' in {node['op'] for node in w.model['nodes']})"
GRADS = "print(all(p.grad is not None for p in net.parameters()), w.details['op'])"


def test_a_double_click_opens_compiled_code_in_place(watched: Watched, lab: Lab) -> None:
    page = watched.page
    open_notebook(lab, page, lab.write("compiled.ipynb", PROGRAM, CALLS, OPS, GRADS))
    run_cell(page, 0)
    picture = widget(page)
    compiled = picture.locator(".gw-node").filter(has_text="compiled:")
    output = picture.locator(".gw-node").filter(has_text=re.compile("output.*Σ"))
    expect(compiled).to_be_visible()
    wait_until_at_rest(page)
    before = drawn(page, ".gw-node").count()
    compiled.click()
    expect(picture.locator(".gw-panel")).to_contain_text("A double click, or expand()")
    wait_until_at_rest(page)
    compiled.dblclick()
    frame = picture.locator(".gw-frames [data-path='CompiledFunctionBackward']")
    expect(frame).to_have_count(1)
    tanh = picture.locator(".gw-node").filter(has_text="tanh ∂")
    expect(tanh).to_be_visible()
    prints(page, 2, "True")
    tanh.click()
    panel = picture.locator(".gw-panel")
    expect(panel).to_contain_text("aten.tanh_backward.default")
    expect(panel).to_contain_text("before the backend fused it")
    panel.get_by_text("Inputs", exact=True).click()
    expect(panel).to_contain_text("grad_output")
    press(page, "To the end")
    expect(panel).to_contain_text("Known by running the backward program once more")
    prints(page, 3, "True aten.tanh_backward.default")
    # The sign in the head of the box closes it again; the picture may have moved away from it.
    picture.get_by_role("button", name=re.compile("^Fit")).first.click()
    picture.locator(".gw-frame-sign").first.click()
    expect(frame).to_have_count(0)
    expect(drawn(page, ".gw-node")).to_have_count(before)
    prints(page, 1, "0")
    expect(output).to_be_visible()


START = "w.selected = None\nw.reset()"
PLACE = "print(w.cursor, w.inner, w.details and w.details['op'])"


def test_keys_step_through_what_is_open_and_out_again(watched: Watched, lab: Lab) -> None:
    page = watched.page
    open_notebook(lab, page, lab.write("inside.ipynb", PROGRAM, PLACE, START))
    run_cell(page, 0)
    picture = widget(page)
    press(page, "To the end")
    at_step(page, "backward done · 4 steps")
    wait_until_at_rest(page)
    picture.locator(".gw-node").filter(has_text="compiled:").dblclick()
    tanh = picture.locator(".gw-node").filter(has_text="tanh ∂")
    expect(tanh).to_be_visible()
    run_cell(page, 2)  # while nothing is selected the panel follows what runs
    at_step(page, "before step 1 of 4")
    forward = bar(page).get_by_role("button", name="One step", exact=True)
    forward.focus()
    running = re.compile("is-running")
    panel = picture.locator(".gw-panel")
    page.keyboard.press("ArrowRight")
    at_step(page, "step 1 of 4")
    page.keyboard.press("ArrowRight")
    at_step(page, "step 2 of 4, call 1 of")
    expect(tanh).to_have_class(running)
    expect(tanh.locator(".gw-badge-step")).to_have_text("2.1")
    expect(panel).to_contain_text("aten.tanh_backward.default")
    expect(panel).to_contain_text("running: step 2 of 4, call 1 of")
    expect(panel).to_contain_text("Known by running the backward program once more")
    prints(page, 1, "2 1 aten.tanh_backward.default")
    forward.focus()
    page.keyboard.press("ArrowRight")
    at_step(page, "step 2 of 4, call 2 of")
    expect(tanh).not_to_have_class(running)
    expect(panel.locator(".gw-title")).to_have_text("aten.t.default")
    page.keyboard.press("ArrowLeft")
    expect(tanh).to_have_class(running)
    page.keyboard.press("Home")
    at_step(page, "before step 1 of 4")
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    prints(page, 1, "2 1 aten.tanh_backward.default")
    picture.get_by_role("button", name=re.compile("^Fit")).first.click()
    picture.locator(".gw-frame-sign").first.click()
    expect(bar(page).locator(".gw-bar-text")).not_to_contain_text("call 1 of")
    at_step(page, "step 2 of 4")
    prints(page, 1, "2 0 CompiledFunctionBackward")
    forward.focus()
    page.keyboard.press("ArrowRight")
    at_step(page, "step 3 of 4")


CUSTOM = """\
import torch
from gradwalk import GraphWidget, watch
class Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        out = grad.clone()
        out.index_put_((x < 0,), torch.zeros(()))
        return out
x = torch.tensor([-1.0, 2.0], requires_grad=True)
with watch():
    loss = Masked.apply(x * 2).sum()
w = GraphWidget(loss)
w"""


def test_a_double_click_opens_what_a_custom_backward_ran(watched: Watched, lab: Lab) -> None:
    page = watched.page
    open_notebook(lab, page, lab.write("custom.ipynb", CUSTOM, CALLS, "loss.backward()"))
    run_cell(page, 0)
    picture = widget(page)
    custom = picture.locator(".gw-node").filter(has_text="Masked")
    frame = picture.locator(".gw-frames [data-path='MaskedBackward']")
    expect(custom).to_be_visible()
    press(page, "To the end")
    custom.click()
    expect(picture.locator(".gw-panel")).to_contain_text("A double click, or expand()")
    wait_until_at_rest(page)
    custom.dblclick()
    expect(frame).to_have_count(1)
    written = picture.locator(".gw-node").filter(has_text="[ ] =")
    written.click()
    panel = picture.locator(".gw-panel")
    expect(panel).to_contain_text("aten.index_put_.default(clone, [lt]")
    expect(panel).to_contain_text("Noted as it ran in this pass")
    prints(page, 1, "4")
    run_cell(page, 2)  # a pass of the program's own notes nothing: the box is gone
    expect(frame).to_have_count(0)
    prints(page, 1, "0")
