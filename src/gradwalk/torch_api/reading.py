"""Read the values of tensors safely, each number once, and in parts.

All code that reads values checks here first. A tensor whose storage was freed (FSDP frees gathered
parameters) still has its shape; reading it crashes the process, which no ``except`` can prevent.
An expanded tensor has more numbers than memory, so each number in memory is read once.

Copies have at most `PART` numbers, whatever the tensor's size.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.testing._comparison import default_tolerances

PART = 2**20  # the most numbers to read, and possibly copy, at a time

_FEW = 2**12  # numbers to read before all others

_ENDED = {torch.float16, torch.bfloat16, torch.float32, torch.float64}

_MOST_OVERLAPPING = 2**27  # numbers of a view that shows the same memory again and again

_PER_BYTE = {torch.quint4x2: 2, torch.quint2x4: 4}  # numbers that torch packs into a byte

PLAIN = (torch.Tensor, torch.nn.Parameter)
"""torch's plain tensor classes: not DTensor, and not a user's subclass."""

_FREED = (
    "Its memory was freed or is smaller than its shape needs ({there} of {needed} bytes are "
    "there, as after untyped_storage().resize_(), which FSDP uses), so its values cannot be read."
)

_NO_DATA = "A {kind} tensor: it has a shape and a dtype but holds no values."

_SHARED_OUT = (
    "It is shared out over several ranks: reading it as a whole would make this one wait for the "
    "others."
)


def own_part(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return this process's part of a DTensor; None for every other tensor.

    An operation on the whole DTensor may communicate, and would wait for the other processes. If
    one process simulates several ranks, return the first one's part.
    """
    if type(tensor) in PLAIN:
        return None
    simulated = simulated_parts(tensor)
    if simulated:
        return next(iter(simulated.values()))
    return _part_of_dtensor(tensor)


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a tensor, detached; a DTensor without the communication that ``clone()`` may cause."""
    part = _part_of_dtensor(tensor)
    if part is None:
        return tensor.detach().clone()
    placed: Any = tensor
    found: torch.Tensor = type(placed).from_local(
        part.detach().clone(),
        placed.device_mesh,
        placed.placements,
        run_check=False,
        shape=placed.shape,
        stride=placed.stride(),
    )
    return found


def _part_of_dtensor(tensor: torch.Tensor) -> torch.Tensor | None:
    shared_out = sys.modules.get("torch.distributed.tensor")
    if shared_out is None or not isinstance(tensor, shared_out.DTensor):
        return None
    part: torch.Tensor = tensor._local_tensor
    return part


def simulated_parts(tensor: torch.Tensor) -> dict[int, torch.Tensor]:
    """Return the part of each rank of a ``LocalTensorMode``, ascending; nothing for others."""
    simulation = sys.modules.get("torch.distributed._local_tensor")
    if simulation is None:
        return {}
    held = _part_of_dtensor(tensor)
    held = tensor if held is None else held
    if not isinstance(held, simulation.LocalTensor):
        return {}
    return dict(sorted(held._local_tensors.items()))


def _is_in_memory(tensor: torch.Tensor) -> bool:
    try:
        return bool(tensor.const_data_ptr())  # type: ignore[attr-defined]
    except Exception:  # a wrapper, or torch up to 2.12: the caller looks more closely
        return False


_STRIDED = torch.strided

_address: Callable[[torch.Tensor], int] = torch._C._storage_address  # type: ignore[attr-defined]


def storage_id(tensor: torch.Tensor) -> int | None:
    """Return an id of a tensor's storage; None for sparse, nested and wrapped tensors."""
    if tensor.is_nested or tensor.layout is not torch.strided:
        return None
    try:
        return int(tensor.untyped_storage()._cdata)
    except RuntimeError:
        return None


def storage_of(tensor: torch.Tensor) -> int | None:
    """Return an id of a tensor's storage; None where it has none with data."""
    try:
        if tensor.is_nested or tensor.layout is not _STRIDED:
            return None
        if type(tensor) in PLAIN and _is_in_memory(tensor):
            return _address(tensor)  # the same without an object for Python
        storage = tensor.untyped_storage()
        size = storage.nbytes()  # a symbol is not asked: torch would note that as a guard
        return int(storage._cdata) if type(size) is not int or size else None
    except Exception:  # a tensor subclass may refuse any question
        return None


def shares_memory(tensor: torch.Tensor) -> bool:
    """Whether another tensor may have the same memory, by how many hold it."""
    storage = storage_of(tensor)
    return storage is not None and storage_uses(storage) > 1


def overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors share memory; an RNN's parameters in one storage do not overlap."""
    memory = storage_of(one)
    if memory is None or memory != storage_of(other):
        return False
    (first, end), (start, last) = _stretch(one), _stretch(other)
    return first < last and start < end


def _stretch(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the first and the last byte of a tensor in its storage."""
    # What its shape, strides and offset need is counted from the start of the memory.
    return int(tensor.storage_offset()) * tensor.itemsize, _memory(tensor)[1]


def storage_uses(storage: int) -> int:
    """Return torch's reference count of a storage."""
    return int(torch._C._storage_Use_Count(storage))


def tensor_uses(tensor: torch.Tensor) -> int:
    """Return torch's C++ reference count of a tensor."""
    return int(tensor._use_count())  # type: ignore[attr-defined]


def has_data(tensor: torch.Tensor) -> bool:
    """Whether a tensor can have values: it is not on meta, nor made under ``FakeTensorMode``."""
    return kind_without_data(tensor) is None


def fake_mode_of(tensors: Iterable[torch.Tensor]) -> FakeTensorMode | None:
    """Return the ``FakeTensorMode`` of the first fake tensor; None without one."""
    return next((each.fake_mode for each in tensors if isinstance(each, FakeTensor)), None)


def kind_without_data(tensor: torch.Tensor) -> str | None:
    """Name the kind of a tensor that never has values, "fake" or "meta"; None for others."""
    if isinstance(tensor, FakeTensor):
        return "fake"
    return "meta" if torch.Tensor.is_meta.__get__(tensor) else None  # type: ignore[attr-defined]


def why_unreadable(tensor: torch.Tensor) -> str | None:
    """Return, as a sentence, why the values of a tensor are not all in memory; else None."""
    if type(tensor) in PLAIN and _is_whole(tensor):
        return None
    if own_part(tensor) is not None:
        return _SHARED_OUT
    with torch._C.DisableTorchFunctionSubclass():
        waiting = [tensor]
        for each in waiting:  # grows while we walk
            kind = kind_without_data(each)
            if kind is not None:
                return _NO_DATA.format(kind=kind)
            inner = _inner(each)
            if inner:
                waiting += inner
                continue
            there, needed = _memory(each)
            if there < needed:
                return _FREED.format(there=f"{there:,}", needed=f"{needed:,}")
    return None


def _is_whole(tensor: torch.Tensor) -> bool:
    """Whether a common kind of tensor has all its values in memory; a fast check."""
    try:
        return (
            not tensor.is_meta
            and not torch._is_functional_tensor(tensor)  # has a storage, with nothing in it
            and tensor.is_contiguous()
            and tensor.untyped_storage().nbytes()
            >= (tensor.storage_offset() + tensor.numel()) * tensor.itemsize
        )
    except Exception:  # sparse, nested, wrapped: to be looked at more closely
        return False


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor is dense and has all its values in memory."""
    return (
        tensor.layout is torch.strided
        and not tensor.is_nested
        and not tensor._is_zerotensor()
        and why_unreadable(tensor) is None
    )


def same_numbers(tensor: torch.Tensor) -> tuple[Any, ...] | None:
    """Return a key that is equal for two living tensors with the same numbers; None without one."""
    try:
        if type(tensor) not in PLAIN or tensor.is_quantized or not is_plain(tensor):
            return None
        place = tensor.data_ptr(), tensor._version, tensor.dtype, tensor.device
        return *place, tensor.shape, tensor.stride(), tensor.is_conj(), tensor.is_neg()
    except Exception:  # wrapped by torch.func, of an inference mode
        return None


def _inner(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the tensors with the values of a wrapper; none for a tensor with a storage."""
    functorch = torch._C._functorch
    if functorch.is_functorch_wrapped_tensor(tensor):
        return [functorch.get_unwrapped(tensor)]
    if torch._is_functional_tensor(tensor):
        return [torch._from_functional_tensor(tensor)]
    if type(tensor) not in PLAIN and hasattr(tensor, "__tensor_flatten__"):
        try:
            names, _ = tensor.__tensor_flatten__()
            found = [getattr(tensor, name) for name in names]
        except Exception:  # a class of the user's may raise anything
            return []
        return [each for each in found if isinstance(each, torch.Tensor) and each is not tensor]
    layout = torch.Tensor.layout.__get__(tensor)  # type: ignore[attr-defined]
    if layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    if layout is torch.strided and tensor.is_nested:
        return [tensor.values()]
    return []


def _memory(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the bytes of a tensor's storage, and the bytes that its shape needs."""
    try:
        # By the base class: a subclass may refuse, or answer with anything.
        count = torch.Tensor.numel(tensor)
        if count == 0 or torch.Tensor._is_zerotensor(tensor):
            return 0, 0
        there = torch.Tensor.untyped_storage(tensor).nbytes()
        last = sum(
            (size - 1) * stride
            for size, stride in zip(
                torch.Tensor.size(tensor), torch.Tensor.stride(tensor), strict=True
            )
        )
        offset = torch.Tensor.storage_offset(tensor)
        needed = (offset + last + 1) * torch.Tensor.element_size(tensor)
        return int(there), int(-(-needed // _PER_BYTE.get(tensor.dtype, 1)))
    except Exception:  # without a storage (MKL-DNN, wrappers): torch reads it in its own way
        return 0, 0


def shape_of(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return a tensor's shape; () for a nested tensor, which has none of numbers."""
    return () if tensor.is_nested else tuple(tensor.shape)


def nbytes_of(tensor: torch.Tensor) -> int:
    """Return the bytes of a tensor's numbers; for a sparse tensor, of its stored parts."""
    inner = _inner(tensor)
    return sum(map(nbytes_of, inner)) if inner else tensor.nbytes


def distinct(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Return a view without repetitions of stride 0, and how often each of its numbers occurs."""
    repeats = 1
    for dim, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if stride == 0 and size > 1:
            repeats *= size
            tensor = tensor.narrow(dim, 0, 1)
    return tensor, repeats


def parts(tensor: torch.Tensor, most: int = PART) -> Iterator[torch.Tensor]:
    """Yield a dense tensor as views of a limited number of values."""
    waiting = [tensor]
    while waiting:
        part = waiting.pop()
        if part.numel() <= most:
            yield part
            continue
        # Along the widest stride, so that what is read together lies together.
        strides = part.stride()
        dim = max((dim for dim, size in enumerate(part.shape) if size > 1), key=strides.__getitem__)
        waiting += reversed(part.chunk(2, dim))


def overlaps_too_much(tensor: torch.Tensor) -> bool:
    """Whether a dense tensor without repetitions still has far more numbers than memory."""
    count = tensor.numel()
    return count > _MOST_OVERLAPPING and count * tensor.element_size() > _memory(tensor)[0]


def everywhere(tensor: torch.Tensor, test: Callable[[torch.Tensor], torch.Tensor]) -> bool | None:
    """Return whether a test is true for every number, read in parts; None if there is none."""
    with torch.no_grad():
        tensor = tensor.detach()
        if tensor._is_zerotensor():
            tensor = zeros_like(tensor)
        if not is_plain(tensor) or not tensor.numel():
            return None
        once, _ = distinct(tensor)
        if overlaps_too_much(once):
            return None
        few = next(parts(once, _FEW))  # mostly enough to tell that it does not
        if few.numel() < once.numel() and not test(few).all():
            return False
        return all(bool(test(part).all()) for part in parts(once))


def count_where(tensor: torch.Tensor, test: Callable[[torch.Tensor], torch.Tensor]) -> int:
    """Return for how many numbers of a tensor that `everywhere` can read a test is true."""
    with torch.no_grad():
        once, repeats = distinct(tensor.detach())
        return repeats * sum(int(test(part).sum()) for part in parts(once))


def finite(part: torch.Tensor) -> torch.Tensor:
    """Return a test for `everywhere`: like `torch.isfinite`, ten times as fast."""
    # The extremes are NaN if any number is.
    return torch.stack(part.aminmax()).isfinite() if part.dtype in _ENDED else part.isfinite()


def zeros_like(tensor: torch.Tensor) -> torch.Tensor:
    """Return zeros of a tensor's shape, with the memory of a single zero."""
    return torch.zeros((), dtype=tensor.dtype, device=tensor.device).expand(tensor.shape)


def one_number(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """Return the only number of a tensor as a 0-dim one; None if it has more or fewer."""
    if tensor is None:
        return None
    try:
        with torch.no_grad():
            tensor = tensor.detach()
            if tensor.is_nested or tensor.numel() != 1 or why_unreadable(tensor) is not None:
                return None
            dense = tensor if tensor.layout is torch.strided else tensor.to_dense()
            # A sum makes a plain number of what torch keeps as a zero without memory.
            dense = zeros_like(dense) if dense._is_zerotensor() else dense
            return dense.reshape(())
    except Exception:  # any backend may refuse any operation
        return None


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def in_short(error: BaseException) -> str:
    """Return the class of an exception and the first line of its message, without a full stop."""
    kind, line = type(error).__name__, first_line(error)
    return kind if line == kind else f"{kind}: {line.rstrip('.')}"


def version_of(tensor: torch.Tensor) -> int:
    """Return a tensor's in-place version; 0 for an inference tensor, which has no counter."""
    try:
        return tensor._version
    except RuntimeError:
        if tensor.is_inference():
            return 0
        raise


def versions_of(*tensors: Sequence[torch.Tensor | None]) -> list[int]:
    """Return the in-place version of each tensor, without None."""
    return [tensor._version for some in tensors for tensor in some if tensor is not None]


def set_version(tensor: torch.Tensor, version: int) -> None:
    """Set a tensor's in-place version; do nothing for an inference tensor."""
    if tensor.is_inference():
        return
    torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))


def detached(tensor: torch.Tensor) -> torch.Tensor:
    """Detach a tensor so that both share the version counter, also in a ``TorchDispatchMode``."""
    key = torch._C.DispatchKey.ADInplaceOrView
    excluded = torch._C._dispatch_tls_is_dispatch_key_excluded(key)
    try:
        torch._C._dispatch_tls_set_dispatch_key_excluded(key, False)
        return tensor.detach()
    finally:
        torch._C._dispatch_tls_set_dispatch_key_excluded(key, excluded)


def base_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the base of a view; None for a tensor that is not a view."""
    return tensor._base


def has_hooks_on_grad(leaf: torch.Tensor) -> bool:
    """Whether a leaf has post-accumulate-grad hooks."""
    return bool(leaf._post_accumulate_grad_hooks)


def hooks_of(tensor: torch.Tensor) -> Any:
    """Return the dict of a tensor's backward hooks, or None."""
    return tensor._backward_hooks


def has_hooks(leaf: torch.Tensor) -> bool:
    """Whether a leaf has any backward hooks."""
    return bool(leaf._backward_hooks) or has_hooks_on_grad(leaf)


def two_norms(tensors: list[torch.Tensor], dtype: torch.dtype | None) -> list[float]:
    """Compute the 2-norms of tensors of one device and dtype, in one call."""
    found: list[float] = torch.stack(torch._foreach_norm(tensors, 2, dtype=dtype)).tolist()
    return found


submodules: Callable[[nn.Module], dict[str, nn.Module | None]] = attrgetter("_modules")
"""A module's children by name. Unlike ``named_children`` it repeats shared modules."""

own_parameters: Callable[[nn.Module], dict[str, nn.Parameter | None]] = attrgetter("_parameters")
"""A module's own parameters by name, without those of its children."""

own_buffers: Callable[[nn.Module], dict[str, torch.Tensor | None]] = attrgetter("_buffers")
"""A module's own buffers by name, without those of its children."""


def dtype_of(name: str) -> torch.dtype:
    """Return the dtype with a name such as "torch.float32"."""
    found: torch.dtype = getattr(torch, name.removeprefix("torch."))
    return found


def wider(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype for differences, at least float32: some narrow dtypes cannot be added."""
    is_narrow = dtype.is_floating_point and dtype.itemsize < 4
    is_whole = not (dtype.is_floating_point or dtype.is_complex)
    return torch.float32 if is_narrow or is_whole else dtype


def tolerances(*dtypes: torch.dtype) -> tuple[float, float]:
    """Return rtol and atol of ``torch.testing.assert_close`` for the coarsest of some dtypes.

    Example:
        >>> tolerances(torch.float32, torch.bfloat16)
        (0.016, 1e-05)
    """
    rtol, atol = default_tolerances(*dtypes)
    return float(rtol), float(atol)
