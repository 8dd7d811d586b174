"""A randomly changed file is refused with a sentence, or opens as a graph that works."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import warnings
import zlib

import pytest
import torch
from fresh import fresh
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwalk import GraphWidget, load, save, watch
from gradwalk.export.text import text_tree
from gradwalk.schema import file_format as saved_file
from gradwalk.schema.columns import TooLargeError, decode

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null')

HOSTILE = [
    *("1e999", "-1e999", "9" * 400, "-1", "0", "1", "7", "1.5", "1e9", str(2**53 + 1), str(2**64)),
    *("null", "true", "false", "[]", "{}", "[[]]", "[null]", "[0]", "[0,-5]", "[-1,0]", '""'),
    *('"x"', '"self"', '"nan"', '"1e999"', '"\\ud800"', '"\\u0000"', '"\\u202e"', '"constant"'),
    *('"op"', '"leaf"', '"cut"', '"gradient"', '{"":{"a":0,"b":[1,2]}}', '{"":{"a":[]}}', '{"":1}'),
    *("[" * 200 + "]" * 200, '{"a":' * 200 + "1" + "}" * 200, "NaN", '"node_for_adding"'),
]


def recorded() -> GraphWidget:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    made = GraphWidget((x * 2).sum() + x.max(), names={"x": x})
    made.backward()
    return made


def watched() -> GraphWidget:
    with watch():
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
        x = torch.ones(1, 2, requires_grad=True)
        loss = (model(x) * x.detach() + torch.tensor(3.0)).sum()
    made = GraphWidget(loss, names=model)
    made.backward()
    made.diagnose(names=model)
    made.cursor = 3
    made.selected = 2
    return made


def program() -> GraphWidget:
    class Adds(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x) * 2 + 1, x.split(1)

    return GraphWidget(torch.fx.symbolic_trace(Adds()))


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("good")
    found = []
    for i, make in enumerate((recorded, watched, program)):
        widget = make()
        data = save(widget, folder / str(i)).read_bytes()
        widget.close()
        found.append(zlib.decompress(data, 31).decode("ascii"))
    return found


def used(widget: GraphWidget, folder) -> None:
    """Use every feature of an opened graph."""
    assert repr(widget).startswith("GraphWidget(")
    str(widget)
    text_tree(widget.to_networkx())
    json.loads(widget.to_json())
    widget.to_dot()
    widget.to_html()
    widget.to_svg(whole=True)
    widget._repr_mimebundle_()
    for cursor in {0, len(widget.steps)}:
        widget.cursor = cursor
        for node in range(len(widget.model["nodes"])):
            widget.selected = node
            assert widget.details["id"] == node
    for kind in ("memory", "diagnose"):
        widget._on_message(None, {"kind": kind}, None)
    if widget.steps:
        widget.reset()
        widget.step()
        widget.run_to(widget.steps[0].node)
    assert widget._fault is None or widget._fault.endswith(".")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        load(save(widget, folder / "again")).close()


def opened(data: bytes, folder) -> GraphWidget | None:
    """Open a file; return None when it is refused with a sentence."""
    (folder / "run").write_bytes(data)
    try:
        return load(folder / "run")
    except ValueError as error:
        refused = error
    assert type(refused) is ValueError
    assert re.fullmatch(r"'[^']*run' (is|has|holds) .*\.", str(refused), re.DOTALL), refused
    assert len(str(refused)) < 800
    return None


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_changed_file_is_refused_or_works(texts, tmp_path_factory, data):
    text = data.draw(st.sampled_from(texts))
    for _ in range(data.draw(st.integers(1, 3))):
        tokens = [each.span() for each in TOKEN.finditer(text)]
        start, end = data.draw(st.sampled_from(tokens))
        other = data.draw(st.sampled_from(tokens))  # what is right elsewhere, too
        new = data.draw(st.sampled_from([*HOSTILE, text[slice(*other)]]))
        if data.draw(st.integers(0, 9)) == 0:  # taken out, or once more
            new = data.draw(st.sampled_from(["", f"{text[start:end]},{text[start:end]}"]))
        text = text[:start] + new + text[end:]
    folder = tmp_path_factory.getbasetemp()
    widget = opened(gzip.compress(text.encode("ascii")), folder)
    if widget is not None:
        used(widget, folder)
        widget.close()


@pytest.mark.parametrize("which", [0, 1, 2])
def test_every_number_that_is_too_large_is_refused_or_works(texts, which, tmp_path):
    text = texts[which]
    numbers = [each.span() for each in TOKEN.finditer(text) if each[0][0] not in '"tfn']
    for start, end in numbers[:: max(1, len(numbers) // 60)]:
        for new in ("1e999", "9" * 400, "-5"):
            changed = text[:start] + new + text[end:]
            widget = opened(gzip.compress(changed.encode("ascii")), tmp_path)
            if widget is not None:
                assert new == "-5"
                widget.close()


@pytest.mark.parametrize("which", [0, 1, 2])
def test_an_unchanged_file_works(texts, which, tmp_path):
    widget = opened(gzip.compress(texts[which].encode("ascii")), tmp_path)
    used(widget, tmp_path)
    widget.close()


BOMBS = {
    "lists": '"[" + "[]," * N + "1]"',
    "records": '"[" + "{}," * N + "1]"',
    "numbers": '"[" + "999999," * N + "1]"',
    "texts": '"[" + "\\"\\u00e9x\\"," * N + "1]"',
    "rows": '"{\\"\\": {\\"a\\": 0, \\"b\\": [" + "0," * N + "1]}}"',
    "rows in rows": '"{\\"\\": {\\"a\\": [" + "{\\"\\": {\\"b\\": [0,0,0]}}," * (N // 9) + "1]}}"',
    "in a good file": '"{\\"format\\": \\"gradwalk\\", \\"graph\\": [" + "[]," * N + "1]}"',
}


def test_a_small_file_never_takes_much_memory(tmp_path):
    for name, written in BOMBS.items():
        text = eval(written, {"N": 4_000_000})
        (tmp_path / name).write_bytes(gzip.compress(text.encode(), 6))
        assert (tmp_path / name).stat().st_size < 2**18
    said = fresh(
        f"""
        from pathlib import Path
        from gradwalk import load
        used = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        before = used()
        for bomb in Path({str(tmp_path)!r}).iterdir():
            try:
                load(bomb)
            except ValueError as error:
                print(round(used() - before), error)
        """
    )
    assert len(said.splitlines()) == len(BOMBS)
    for line in said.splitlines():
        mebibytes, sentence = line.split(maxsplit=1)
        assert int(mebibytes) < 300  # 1,600 before the values were counted; the text is up to 60
        assert sentence.endswith(".")  # those that the limits let through are no graph


def test_a_large_graph_is_opened_when_it_is_asked_for(tmp_path):
    y = torch.ones(1, requires_grad=True)
    for _ in range(3000):
        y = y * 1.5
    path = save(y, tmp_path / "run.gw")
    with contextlib.closing(load(path)) as widget:
        assert len(widget.model["nodes"]) > 3000
    with contextlib.closing(load(path, max_nodes=None)) as widget:
        assert len(widget.model["nodes"]) > 3000
    data = path.read_bytes()
    with pytest.raises(TooLargeError, match="holds more values"):
        decode(data, most_values=1000)
    for wrong, error in ((0, ValueError), (1.5, TypeError), ("many", TypeError)):
        with pytest.raises(error, match="max_nodes was given"):
            load(path, max_nodes=wrong)


# Details at every cursor, and, of more than 500 nodes, at one only.
@pytest.mark.parametrize(
    "count", [10, 50, 300, *(pytest.param(each, marks=pytest.mark.full) for each in (120, 600))]
)
def test_what_save_writes_is_far_from_the_limits(count, tmp_path):
    x = torch.ones(8, 8, requires_grad=True)
    y = x
    for _ in range(count):
        y = y @ x + x
    widget = GraphWidget(y.sum())
    widget.backward()
    data = save(widget, tmp_path / f"{count}.gw").read_bytes()
    widget.close()
    decode(data, saved_file.MOST_BYTES, saved_file.most_values(len(data), count) // 2)
