"""A tensor whose memory was taken away is never read: that would end the process."""

from __future__ import annotations

from fresh import fresh

LOOK = """
def look(widget):
    found = []
    for node in [None, *range(len(widget.model["nodes"]))]:
        widget.selected = node
        found.append(widget.details)
        assert node is None or found[-1]["failed"] == [], found[-1]["failed"]
    widget.state, widget.steps, widget.run, widget.transport
    return found


def notes(found):
    for details in found:
        if details is not None:
            of = [details["value"], details["grad"], *(details["grad_output"] or [])]
            of += [*(details["grad_input"] or []), *(s["summary"] for s in details["saved"])]
            for summary in of:
                if summary and summary["note"]:
                    yield summary["note"]


def gone(found):
    told = [note for note in notes(found) if "memory was freed" in note]
    assert told and all(note[0].isupper() and note.endswith(".") for note in told), told
"""


def test_leaf_intermediate_saved_and_gradient_of_every_dtype():
    fresh(
        LOOK
        + """
dtypes = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64,
          torch.complex128]
def views(x):
    yield x
    yield x.view(2, 3).t()
    yield x[2:]

for dtype in dtypes:
    for size in ("nothing", "half"):
        for which in range(3):
            x = torch.ones(6, dtype=dtype, requires_grad=True)
            y = list(views(x))[which] * 2
            z = (y * y).abs().sum()
            widget = GraphWidget(z)
            y.retain_grad()
            widget.backward()
            for tensor in (x, y, x.grad, y.grad):
                storage = tensor.untyped_storage()
                storage.resize_(0 if size == "nothing" else storage.nbytes() // 2)
            gone(look(widget))
            widget.cursor = 0
            look(widget)
            widget.close()
"""
    )


def test_every_dtype_layout_and_view_can_be_asked():
    fresh(
        """
        from gradwalk.torch_api.reading import everywhere, one_number, why_unreadable
        from gradwalk.torch_api.summary import plain_values
        from gradwalk.torch_api.summary import summarise
        from gradwalk.backward.kept_gradients import norm_of

        dtypes = {t for t in vars(torch).values() if isinstance(t, torch.dtype)}
        count = 0
        for dtype in sorted(dtypes, key=str):
            for make in (
                lambda t: t,
                lambda t: t[5:],
                lambda t: t[::2],
                lambda t: t.view(4, 3).t(),
                lambda t: t.view(4, 3)[1:, 1:],
                lambda t: t[:1].expand(1000),
                lambda t: t.as_strided((3, 3), (2, 1), 1),
            ):
                for left in (0, 1, 5):
                    try:
                        whole = torch.empty(12, dtype=dtype)
                        view = make(whole)
                    except Exception:
                        continue
                    assert why_unreadable(view) is None
                    whole.untyped_storage().resize_(left)
                    if why_unreadable(view) is None:
                        continue  # still all there: one byte of a one-byte dtype
                    count += 1
                    assert "memory was freed" in summarise(view)["note"]
                    for read in (plain_values, one_number, norm_of):
                        assert read(view) is None, (read, dtype, view.shape)
                    assert everywhere(view, bool) is None
        assert count > 200, count

        base = torch.ones(4)
        part = base[:2]
        base.untyped_storage().resize_(8)
        assert why_unreadable(part) is None and why_unreadable(base) is not None
        assert plain_values(part) == [1.0, 1.0]

        eye = torch.eye(3).to_sparse()
        eye._values().untyped_storage().resize_(0)
        assert "memory" in summarise(eye)["note"]
        row = torch.eye(3).to_sparse_csr()
        row.col_indices().untyped_storage().resize_(0)
        assert "memory" in summarise(row)["note"]
        for layout in (torch.strided, torch.jagged):
            nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)
            nested.values().untyped_storage().resize_(0)
            assert summarise(nested)["values"] is None and summarise(nested)["note"]
        """
    )


def test_save_html_diagnose_watch_formulas_and_the_chain_rule(tmp_path):
    fresh(
        LOOK
        + f"""
folder = {str(tmp_path)!r}
w = torch.ones(1, requires_grad=True)
c = torch.full((1,), 2.0)
with watch():
    frozen = torch.ones(3)
    z = ((w * c).sigmoid().relu() ** 2 * frozen).clamp(0.1, 9).sum()
free = [w, c, frozen]
def empty():
    for tensor in free:
        tensor.untyped_storage().resize_(0)
widget = GraphWidget(z)
recording = record(z)
saved = []
node = z.grad_fn
waiting, seen = [node], set()
while waiting:
    node = waiting.pop()
    if node in seen:
        continue
    seen.add(node)
    for name in dir(node):
        if name.startswith("_saved_") and isinstance(getattr(node, name), torch.Tensor):
            free.append(getattr(node, name))
    waiting += [child for child, _ in node.next_functions if child is not None]
empty()
look(widget)
print(diagnose(widget), diagnose(recording))
save(z, folder + "/a.gw.json.gz")
save(widget, folder + "/b.gw.json.gz")
widget.to_html(folder + "/a.html")
print(gradwalk.explain_grad(w, z), widget)
w.grad.untyped_storage().resize_(0)
print(gradwalk.explain_grad(w, z))
gone(look(widget))
widget2 = GraphWidget(z)
gone(look(widget2))
gradwalk.load(folder + "/a.gw.json.gz").details
for step in recording.steps:
    step.contributions
recording.reset(); recording.step(99)
gradwalk.compare([z, z.exp()])
"""
    )
