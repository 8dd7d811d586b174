"""Every call that a live page computes, beside torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from live_engine import computed, is_right, off_by, taped_model, tensor_of

from gradwalk.features.live.calls import CALLS
from gradwalk.features.live.tape import Tape

pytestmark = [pytest.mark.one_python, pytest.mark.filterwarnings("ignore")]

MOST_SAMPLES = 12
F = torch.nn.functional


def recorded(run: Callable[[], Any], inputs: list[torch.Tensor]) -> Any:
    """Record what a function calls; None where it calls what no page computes."""
    tape = Tape()
    try:
        for each in inputs:
            tape.add_input(each)
        with torch.no_grad(), tape.recording():
            given = run()
        several = given if isinstance(given, (tuple, list)) else [given]
        outputs = [each for each in several if isinstance(each, torch.Tensor)]
        views = [tape.view(each) for each in outputs]
    except Exception:  # refused, or a sample that is not for this machine
        return None
    return (tape, views, outputs) if tape.calls else None


def tensors_of(value: Any) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(value)
    return [each for each in leaves if isinstance(each, torch.Tensor)]


def samples(dtype: torch.dtype) -> Iterator[tuple[str, Callable[[], Any], list[torch.Tensor]]]:
    """Yield samples of torch's operator database, and some of calls that it does not make."""
    from torch.testing._internal.common_methods_invocations import op_db  # noqa: PLC0415

    for op in op_db:
        if dtype not in op.dtypes:
            continue
        for sample in list(op.sample_inputs("cpu", dtype))[:MOST_SAMPLES]:
            given = tensors_of((sample.input, sample.args, sample.kwargs))
            if any(each.layout is not torch.strided or each.is_nested for each in given):
                continue
            if sum(each.numel() for each in given) > 2_000:
                continue

            def run(op: Any = op, sample: Any = sample) -> Any:
                torch.manual_seed(0)
                return op.op(sample.input, *sample.args, **sample.kwargs)

            yield op.name, run, [x for x in given if x.is_floating_point() and x.numel()]
    yield from more(dtype)


def more(dtype: torch.dtype) -> Iterator[tuple[str, Callable[[], Any], list[torch.Tensor]]]:
    aten = torch.ops.aten
    x, w = torch.randn(2, 4, 7, 6, dtype=dtype), torch.randn(6, 2, 3, 2, dtype=dtype)
    grad = torch.randn(2, 6, 3, 4, dtype=dtype)
    shape = ([2, 2], [0, 1], [1, 1], False, [0, 0], 2, [True, True, True])
    small = F.conv2d(x, w, None, (2, 2), (0, 1), 1, 2)
    grad = torch.randn_like(small)
    yield "conv", lambda: aten.convolution_backward(grad, x, w, [6], *shape), [grad, x, w]
    wt = torch.randn(4, 3, 3, 3, dtype=dtype)
    big = F.conv_transpose2d(x, wt, None, 2, 1, 1)
    up = torch.randn_like(big)
    turned = ([2, 2], [1, 1], [1, 1], True, [1, 1], 1, [True, True, True])
    yield "conv transposed", lambda: aten.convolution_backward(up, x, wt, [3], *turned), [up, x, wt]
    pool = ([2, 3], [2, 2], [1, 1], False, False, None)
    pooled = torch.randn_like(F.avg_pool2d(x, *pool))
    yield "avg", lambda: aten.avg_pool2d_backward(pooled, x, *pool), [pooled, x]
    yield "xor", lambda: (x > 0) ^ (x < 0.5), [x]
    ties = torch.tensor([[1.0, 1.0, 0.0], [0.0, -0.0, 0.0]], dtype=dtype)
    for name in ("max", "min", "argmax", "argmin", "sort", "topk"):
        extra = (2,) if name == "topk" else ()
        if name in ("max", "min"):
            extra = (1,)
        yield name, lambda name=name, extra=extra: getattr(ties, name)(*extra), [ties]
    bounds = torch.tensor([-1.0, 1.0, 0.0, float("inf"), -float("inf"), float("nan")], dtype=dtype)
    for name in ("relu", "sigmoid", "tanh", "abs", "sign", "exp", "log1p", "erf"):
        yield name, lambda name=name: getattr(torch, name)(bounds), [bounds]
    yield "clamp", lambda: bounds.clamp(-1, 1), [bounds]
    yield "pow", lambda: bounds.pow(3), [bounds]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_call_gives_what_torch_gives(dtype):
    torch.manual_seed(0)
    jobs: list[Any] = []
    expected: list[Any] = []
    seen: Counter[str] = Counter()
    for name, run, inputs in samples(dtype):
        found = recorded(run, inputs)
        if found is None or sum(each.size for each in found[0].storages) > 8_000:
            continue
        tape, views, outputs = found
        kinds = {call.name for call in tape.calls}
        seen.update(kinds)
        jobs.append({"model": taped_model(tape), "settings": [[]], "views": views})
        expected.append((name, kinds, outputs, run))
    assert set(seen) == CALLS
    wrong = []
    for start in range(0, len(jobs), 400):
        found = computed(jobs[start : start + 400])
        for given, (name, kinds, outputs, _) in zip(found, expected[start:], strict=False):
            assert "error" not in given[0], (name, given[0].get("error"))
            for numbers, output in zip(given[0]["views"], outputs, strict=True):
                tensor = tensor_of(numbers, output)
                if not is_right(tensor, output, kinds):
                    wrong.append((name, off_by(tensor, output), kinds))
    assert not wrong, wrong[:10]
