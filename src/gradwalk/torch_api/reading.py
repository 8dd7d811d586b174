"""Read the values of tensors safely, each number once, and in parts.

All code that reads values checks here first. A tensor whose storage was freed (FSDP frees gathered
parameters) still has its shape; reading it crashes the process, which no ``except`` can prevent.
An expanded tensor has more numbers than memory, so each number in memory is read once.

Copies have at most `PART` numbers, whatever the tensor's size.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, cast

import torch

from .capability import capability, is_there
from .dtensors import PLAIN, copied, own_part
from .modes import is_wrapped, layers, without_function_subclasses

PART = 2**20  # the most numbers to read, and possibly copy, at a time

_FEW = 2**12  # numbers to read before all others

_ENDED = {torch.float16, torch.bfloat16, torch.float32, torch.float64}

_MOST_OVERLAPPING = 2**27  # numbers of a view that shows the same memory again and again

_PER_BYTE = {torch.quint4x2: 2, torch.quint2x4: 4}  # numbers that torch packs into a byte

_FREED = (
    "Its memory was freed or is smaller than its shape needs ({there} of {needed} bytes are "
    "there, as after untyped_storage().resize_(), which FSDP uses), so its values cannot be read."
)

_NO_DATA = "A {kind} tensor: it has a shape and a dtype but holds no values."

_SHARED_OUT = (
    "It is shared out over several ranks: reading it as a whole would make this one wait for the "
    "others."
)


def _is_in_memory(tensor: torch.Tensor) -> bool:
    try:
        return bool(tensor.const_data_ptr())  # type: ignore[attr-defined]
    except Exception:  # a wrapper, or torch up to 2.12: the caller looks more closely
        return False


_STRIDED = torch.strided


@capability("UntypedStorage._cdata", otherwise=torch.UntypedStorage.data_ptr)
def key_of(read: Any) -> Callable[[torch.UntypedStorage], int]:
    """Return an id of a storage, the address of torch's object, while it lives."""
    one, other = (torch.ones(1, device="cpu").untyped_storage() for _ in range(2))
    if not read(one) or read(one) == read(other):
        raise ValueError("torch gives no address.")
    return cast("Callable[[torch.UntypedStorage], int]", read)


@capability(
    "torch._C._storage_address",
    otherwise=lambda tensor: key_of(tensor.untyped_storage()),
)
def _address(read: Any) -> Callable[[torch.Tensor], int]:
    """Return `key_of` a tensor's storage, without an object for Python."""
    tensor = torch.ones(1, device="cpu")
    if read(tensor) != key_of(tensor.untyped_storage()):
        raise ValueError("torch gives another address.")
    return cast("Callable[[torch.Tensor], int]", read)


def storage_id(tensor: torch.Tensor) -> int | None:
    """Return an id of a tensor's storage; None for sparse, nested and wrapped tensors."""
    if tensor.is_nested or tensor.layout is not torch.strided:
        return None
    try:
        return int(key_of(tensor.untyped_storage()))
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
        return int(key_of(storage)) if type(size) is not int or size else None
    except Exception:  # a tensor subclass may refuse any question
        return None


def shares_memory(tensor: torch.Tensor) -> bool:
    """Whether another tensor may have the same memory, by how many hold it."""
    storage = storage_of(tensor)
    return storage is not None and (not counts_holders() or storage_uses(storage) > 1)


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


_HOLDERS = "Who else holds the memory of saved tensors is unknown"


@capability(
    "torch._C._storage_Use_Count", "UntypedStorage._cdata", otherwise=lambda _: 0, lost=_HOLDERS
)
def storage_uses(count: Any, address: Any) -> Callable[[int], int]:
    """Return torch's reference count of a storage; 0 if unknown."""
    one = torch.ones(1, device="cpu")
    alone = count(address(one.untyped_storage()))
    view = one.view(1)
    if count(address(view.untyped_storage())) <= alone:
        raise ValueError("torch does not count who holds a storage.")
    return cast("Callable[[int], int]", count)


@capability("Tensor._use_count()", otherwise=lambda _: 0, lost=_HOLDERS)
def tensor_uses(count: Any) -> Callable[[torch.Tensor], int]:
    """Return torch's C++ reference count of a tensor; 0 if unknown."""
    if count(torch.ones(1, device="cpu")) < 1:
        raise ValueError("torch does not count who holds a tensor.")
    return cast("Callable[[torch.Tensor], int]", count)


def counts_holders() -> bool:
    """Whether torch says how many hold a tensor and its memory."""
    return is_there(storage_uses, tensor_uses)


def has_data(tensor: torch.Tensor) -> bool:
    """Whether a tensor can have values: it is not on meta, nor made under ``FakeTensorMode``."""
    return kind_without_data(tensor) is None


@capability(
    "torch._subclasses.fake_tensor.FakeTensor",
    otherwise=lambda kind: kind.__name__ == "FakeTensor",
)
def is_fake_kind(fake: type) -> Callable[[type], bool]:
    """Whether a class of tensors is of those made under ``FakeTensorMode``."""
    if issubclass(torch.Tensor, fake):
        raise ValueError("torch calls plain tensors fake.")
    return lambda kind: issubclass(kind, fake)


def fake_mode_of(tensors: Iterable[torch.Tensor]) -> Any:
    """Return the ``FakeTensorMode`` of the first fake tensor; None without one."""
    fake: Iterator[Any] = (each for each in tensors if is_fake_kind(type(each)))
    return next((each.fake_mode for each in fake), None)


def kind_without_data(tensor: torch.Tensor) -> str | None:
    """Name the kind of a tensor that never has values, "fake" or "meta"; None for others."""
    if type(tensor) not in PLAIN and is_fake_kind(type(tensor)):
        return "fake"
    return "meta" if torch.Tensor.is_meta.__get__(tensor) else None  # type: ignore[attr-defined]


def why_unreadable(tensor: torch.Tensor) -> str | None:
    """Return, as a sentence, why the values of a tensor are not all in memory; else None."""
    if type(tensor) in PLAIN and _is_whole(tensor):
        return None
    if own_part(tensor) is not None:
        return _SHARED_OUT
    with without_function_subclasses():
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
            and not is_functional(tensor)  # has a storage, with nothing in it
            and tensor.is_contiguous()
            and tensor.untyped_storage().nbytes()
            >= (tensor.storage_offset() + tensor.numel()) * tensor.itemsize
        )
    except Exception:  # sparse, nested, wrapped: to be looked at more closely
        return False


@capability(
    "torch._is_functional_tensor",
    otherwise=lambda _: False,
    lost="Tensors inside of functionalize() are not recognised",
)
def is_functional(ask: Any) -> Callable[[torch.Tensor], bool]:
    """Whether a tensor is a wrapper of ``torch.func.functionalize`` or of a compiler."""
    if ask(torch.ones(1, device="cpu")):
        raise ValueError("torch calls a plain tensor functional.")
    return cast("Callable[[torch.Tensor], bool]", ask)


@capability("torch._from_functional_tensor", otherwise=lambda _: None)
def _of_functional(inside: Any) -> Callable[[torch.Tensor], torch.Tensor | None]:
    """Return the tensor inside of a functional one; None if unknown."""
    return cast("Callable[[torch.Tensor], torch.Tensor | None]", inside)


def _has_no_pointer(tensor: torch.Tensor) -> bool:
    """Whether the memory of a tensor with numbers begins at address 0."""
    try:
        start = tensor.data_ptr() - tensor.storage_offset() * tensor.itemsize
        return not tensor.is_meta and tensor.numel() > 0 and start == 0
    except Exception:  # without a storage, or a class that refuses
        return False


@capability("torch.Tensor._is_zerotensor", otherwise=_has_no_pointer)
def is_zero_tensor(ask: Any) -> Callable[[torch.Tensor], bool]:
    """Whether torch knows that all numbers are zero, and has no memory for them."""
    if ask(torch.ones(1, device="cpu")):
        raise ValueError("torch calls ones zero.")
    return cast("Callable[[torch.Tensor], bool]", ask)


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor is dense and has all its values in memory."""
    return (
        tensor.layout is torch.strided
        and not tensor.is_nested
        and not is_zero_tensor(tensor)
        and why_unreadable(tensor) is None
    )


def same_numbers(tensor: torch.Tensor) -> tuple[Any, ...] | None:
    """Return a key that is equal for two living tensors with the same numbers; None without one."""
    try:
        if type(tensor) not in PLAIN or tensor.is_quantized or not is_plain(tensor):
            return None
        place = tensor.data_ptr(), read_version(tensor), tensor.dtype, tensor.device
        return *place, tensor.shape, tensor.stride(), tensor.is_conj(), tensor.is_neg()
    except Exception:  # wrapped by torch.func, of an inference mode
        return None


def _inner(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the tensors with the values of a wrapper; none for a tensor with a storage."""
    if is_wrapped(tensor):
        return list(islice(layers(tensor), 1, 2))
    if is_functional(tensor):
        inner = _of_functional(tensor)
        return [] if inner is None else [inner]
    if type(tensor) not in PLAIN and hasattr(tensor, "__tensor_flatten__"):
        try:
            names, _ = tensor.__tensor_flatten__()
            found = [getattr(tensor, name) for name in names]
        except Exception:  # a class of the user's may raise anything
            return []
        return [each for each in found if isinstance(each, torch.Tensor) and each is not tensor]
    layout = torch.Tensor.layout.__get__(tensor)  # type: ignore[attr-defined]
    if layout is torch.sparse_coo:
        try:
            return [*sparse_parts(tensor)]
        except RuntimeError:  # unknown
            return []
    if layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    if layout is torch.strided and tensor.is_nested:
        return [tensor.values()]
    return []


def _unread_sparse(_: torch.Tensor) -> Any:
    raise RuntimeError(f"torch {torch.__version__} does not give the parts of a sparse tensor")


@capability(
    "torch.Tensor._indices",
    "torch.Tensor._values",
    otherwise=_unread_sparse,
    lost="The values of sparse tensors are not read",
)
def sparse_parts(
    indices: Any, values: Any
) -> Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """Return the indices and the values that a COO tensor stores, also one not coalesced."""
    one = torch.ones(1, device="cpu").to_sparse()
    if (indices(one).shape, values(one).shape) != ((1, 1), (1,)):
        raise ValueError("torch gives other parts.")
    return lambda tensor: (indices(tensor), values(tensor))


def _memory(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the bytes of a tensor's storage, and the bytes that its shape needs."""
    try:
        # By the base class: a subclass may refuse, or answer with anything.
        count = torch.Tensor.numel(tensor)
        if count == 0 or is_zero_tensor(tensor):
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
        if is_zero_tensor(tensor):
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
            dense = zeros_like(dense) if is_zero_tensor(dense) else dense
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


_unknown_versions = itertools.count(1)


@capability(
    "Tensor._version",
    otherwise=lambda _: next(_unknown_versions),  # never equal to another one
    lost="Recorded values count as changed: changes in place cannot be recognised",
)
def read_version(read: Any) -> Callable[[Any], int]:
    """Return a tensor's in-place version; RuntimeError for an inference tensor."""
    tensor = torch.ones(1, device="cpu")
    before = read(tensor)
    tensor.add_(1)
    if read(tensor) <= before:
        raise ValueError("torch does not count changes in place.")
    return cast("Callable[[Any], int]", read)


def version_of(tensor: torch.Tensor) -> int:
    """Return a tensor's in-place version; 0 for an inference tensor, which has no counter."""
    try:
        return read_version(tensor)
    except RuntimeError:
        if tensor.is_inference():
            return 0
        raise


def versions_of(*tensors: Sequence[torch.Tensor | None]) -> list[int]:
    """Return the in-place version of each tensor, without None."""
    return [read_version(tensor) for some in tensors for tensor in some if tensor is not None]


def _version_stays(_tensor: torch.Tensor, _version: int) -> None:
    raise RuntimeError(f"torch {torch.__version__} does not let a version be set back")


@capability(
    "torch._C._autograd._unsafe_set_version_counter",
    otherwise=_version_stays,
    lost="Steps do not move a .grad that was added to in place",
)
def _set_version(setter: Any) -> Callable[[torch.Tensor, int], None]:
    tensor = torch.ones(1, device="cpu")
    tensor.add_(1)
    setter((tensor,), (0,))
    if read_version(tensor) != 0:
        raise ValueError("torch sets no version.")
    return lambda tensor, version: setter((tensor,), (version,))


def refuse_versions() -> None:
    """Raise RuntimeError if `set_version` cannot work with this torch."""
    if not is_there(_set_version):
        _version_stays(torch.empty(0), 0)


def set_version(tensor: torch.Tensor, version: int) -> None:
    """Set a tensor's in-place version; do nothing for an inference tensor."""
    if not tensor.is_inference():
        _set_version(tensor, version)


@capability(
    "torch._C.DispatchKey.ADInplaceOrView",
    "torch._C._dispatch_tls_is_dispatch_key_excluded",
    "torch._C._dispatch_tls_set_dispatch_key_excluded",
    otherwise=copied,
)
def detached(key: Any, is_excluded: Any, exclude: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """Detach a tensor so that both share the version counter, also in a ``TorchDispatchMode``.

    If that is not possible, return a copy, which nothing can change.
    """

    def detach(tensor: torch.Tensor) -> torch.Tensor:
        excluded = is_excluded(key)
        try:
            exclude(key, False)
            return tensor.detach()
        finally:
            exclude(key, excluded)

    tensor = torch.ones(1, device="cpu")
    held = detach(tensor)
    tensor.add_(1)
    if read_version(held) != read_version(tensor):
        raise ValueError("torch counts the changes of both apart.")
    return detach


@capability("Tensor._base", otherwise=lambda _: None, lost="Views are not recognised")
def base_of(read: Any) -> Callable[[torch.Tensor], torch.Tensor | None]:
    """Return the base of a view; None for a tensor that is not a view."""
    tensor = torch.ones(1, device="cpu")
    if read(tensor) is not None or read(tensor.view(1)) is not tensor:
        raise ValueError("torch reports another base.")
    return cast("Callable[[torch.Tensor], torch.Tensor | None]", read)


@capability("Tensor._post_accumulate_grad_hooks", otherwise=lambda _: True)
def has_hooks_on_grad(read: Any) -> Callable[[torch.Tensor], bool]:
    """Whether a leaf has post-accumulate-grad hooks; True if unknown."""
    leaf = torch.ones(1, device="cpu", requires_grad=True)
    if read(leaf):
        raise ValueError("torch reports a hook where none is.")
    leaf.register_post_accumulate_grad_hook(lambda _: None)  # type: ignore[no-untyped-call]
    if not read(leaf):
        raise ValueError("torch does not report a hook.")
    return lambda leaf: bool(read(leaf))


@capability("Tensor._backward_hooks", otherwise=lambda _: None)
def hooks_of(read: Any) -> Callable[[torch.Tensor], Any]:
    """Return the dict of a tensor's backward hooks, or None; None if unknown."""
    leaf = torch.ones(1, device="cpu", requires_grad=True)
    leaf.register_hook(lambda _: None)  # type: ignore[no-untyped-call]
    if not read(leaf):
        raise ValueError("torch does not report a hook.")
    return cast("Callable[[torch.Tensor], Any]", read)


def knows_hooks() -> bool:
    """Whether torch says which tensors have hooks."""
    return is_there(hooks_of, has_hooks_on_grad)


def has_hooks(leaf: torch.Tensor) -> bool:
    """Whether a leaf has any backward hooks; True if unknown."""
    return not knows_hooks() or bool(hooks_of(leaf)) or has_hooks_on_grad(leaf)


@capability(
    "torch._foreach_norm",
    otherwise=lambda tensors, _, dtype: [
        torch.linalg.vector_norm(each, dtype=dtype) for each in tensors
    ],
)
def _norms(norms: Any) -> Callable[[list[torch.Tensor], int, torch.dtype | None], Any]:
    if float(norms([torch.ones(4, device="cpu")], 2, dtype=torch.float64)[0]) != 2:
        raise ValueError("torch computes another norm.")
    return lambda tensors, order, dtype: norms(tensors, order, dtype=dtype)


def stacked_norms(tensors: list[torch.Tensor], dtype: torch.dtype | None) -> torch.Tensor:
    """Compute the 2-norms of tensors of one device and dtype, without waiting for the device."""
    return torch.stack(list(_norms(tensors, 2, dtype)))


def dtype_of(name: str) -> torch.dtype:
    """Return the dtype with a name such as "torch.float32"."""
    found: torch.dtype = getattr(torch, name.removeprefix("torch."))
    return found


def wider(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype for differences, at least float32: some narrow dtypes cannot be added."""
    is_narrow = dtype.is_floating_point and dtype.itemsize < 4
    is_whole = not (dtype.is_floating_point or dtype.is_complex)
    return torch.float32 if is_narrow or is_whole else dtype
