"""A GPU that is not there: tensors carry a mark of the device they would be on, and what would be
an error there is one here.

Under :class:`Pretend` a marked tensor says that it is on ``cuda:0``, results of marked tensors are
marked, and these raise as CUDA tensors would: an operation on tensors of both devices (one of no
dimensions on the CPU apart), a CPU tensor indexed by a marked one, ``numpy()``. What autograd does
by itself is not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, resolve_name

GPU = torch.device("cuda", 0)
_MARK = "_on_pretended_gpu"
_MOVES = ("copy_", "set_", "__set__", "cpu", "to", "type_as", "device", "__get__")


def marked(value: Any) -> bool:
    """Whether a tensor is on the pretended GPU."""
    return isinstance(value, Tensor) and getattr(value, _MARK, False)


def put(module: Any) -> Any:
    """Mark a module's parameters and buffers."""
    for tensor in (*module.parameters(), *module.buffers()):
        setattr(tensor, _MARK, True)
    return module


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _tensors(one)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _is_gpu(device: Any) -> bool:
    return isinstance(device, str | torch.device) and str(device).startswith("cuda")


class Pretend(TorchFunctionMode):
    """The mode; see the module."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", str(func))
        owner = str(getattr(func, "__self__", ""))
        if name == "__get__":
            if "device" in owner and marked(args[0]):
                return GPU
            if "is_cuda" in owner:
                return marked(args[0])
            if "is_cpu" in owner:
                return not marked(args[0])
        if name in ("numpy", "__array__") and marked(args[0]):
            raise TypeError("can't convert cuda:0 device type tensor to numpy (pretended)")
        if name == "cpu":
            return _unmarked(args[0])
        if name == "to":
            return self._to(func, args, kwargs)
        asked = kwargs.get("device")
        if _is_gpu(asked):
            kwargs["device"] = "cpu"
        given = list(_tensors((args, kwargs)))
        on_gpu = any(map(marked, given)) if asked is None else _is_gpu(asked)
        if name == "data_ptr" or name == "__set__":
            result = func(*args, **kwargs)
            if name == "__set__" and len(given) == 2:
                setattr(args[0], _MARK, marked(args[1]))
            return result
        self._check(func, name, args, kwargs, given)
        result = func(*args, **kwargs)
        if on_gpu:
            for tensor in _tensors(result):
                setattr(tensor, _MARK, True)
            if isinstance(result, tuple) and hasattr(result, "_fields"):
                for tensor in _tensors(tuple(result)):
                    setattr(tensor, _MARK, True)
        return result

    def _to(self, func: Any, args: Any, kwargs: Any) -> Any:
        """``to`` a device, a dtype or another tensor's."""
        target: bool | None = None
        rest = []
        for one in args[1:]:
            if isinstance(one, Tensor):
                target = marked(one)
                rest.append(one.dtype)
            elif isinstance(one, str | torch.device):
                target = _is_gpu(one)
            else:
                rest.append(one)
        if "device" in kwargs:
            target = _is_gpu(kwargs.pop("device"))
        source = args[0]
        moved = func(source, *rest, **kwargs) if rest or kwargs else source
        if target is None:
            target = marked(source)
        if moved is source and target == marked(source):
            return source
        if moved is source:
            moved = source.view_as(source)
        setattr(moved, _MARK, target)
        return moved

    def _check(self, func: Any, name: str, args: Any, kwargs: Any, given: list[Tensor]) -> None:
        if name in _MOVES or not any(map(marked, given)):
            return
        where = resolve_name(func) or name
        if name in ("__getitem__", "__setitem__", "index_put", "index_put_"):
            index = list(_tensors(args[1]))
            if not marked(args[0]) and any(map(marked, index)):
                raise RuntimeError(f"{where}: a CPU tensor is indexed by a GPU's (pretended)")
            given = [args[0], *_tensors(args[2:])]
        strangers = [t for t in given if not marked(t)]
        if any(map(marked, given)) and any(t.dim() > 0 for t in strangers):
            shapes = [(tuple(t.shape), "gpu" if marked(t) else "cpu") for t in given]
            raise RuntimeError(f"{where}: tensors on two devices (pretended): {shapes}")


def _unmarked(tensor: Tensor) -> Tensor:
    made = tensor.view_as(tensor) if marked(tensor) else tensor
    setattr(made, _MARK, False)
    return made


class _Card:
    total_memory = 1 << 30


@contextmanager
def pretending(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A GPU of 1 GiB for the length of a block; autocast is the CPU's."""
    real = torch.autocast

    class Cast(real):  # type: ignore[misc, valid-type]
        def __init__(self, device: str, *args: Any, **options: Any) -> None:
            super().__init__("cpu", *args, **options)

    copied = torch.nn.Parameter.__deepcopy__

    def deepcopy(parameter: Any, memo: Any) -> Any:
        made = copied(parameter, memo)
        setattr(made, _MARK, marked(parameter))
        return made

    with monkeypatch.context() as patch, Pretend():
        patch.setattr(torch, "autocast", Cast)
        patch.setattr(torch.nn.Parameter, "__deepcopy__", deepcopy)
        patch.setattr(torch.cuda, "get_device_properties", lambda device: _Card())
        yield
