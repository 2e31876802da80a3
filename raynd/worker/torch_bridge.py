"""How PyTorch's kernels are called: arrays become tensors and results arrays, without a copy on either way.

On the CPU they share NumPy's memory. On a GPU they are exchanged by DLPack and the work is queued on CuPy's current
stream, so no kernel waits for another library's.
"""
from __future__ import annotations

import contextlib
import os
import warnings

# OpenMP threads that wait for work spin for milliseconds by default, which starves everybody on a busy machine.
os.environ.setdefault("GOMP_SPINCOUNT", "0")

import numpy
import torch

from ..spec import ArraySpec
from .backend import follow_threads

follow_threads(torch.set_num_threads)

FACTORIES: dict = {}
_COMPUTED = ("float32", "float64")
_KNOWN = ("bool", "int8", "int16", "int32", "int64", "uint8", "float16", *_COMPUTED)

with warnings.catch_warnings():         # PyTorch warns once of read-only arrays; kernels only read them
    warnings.simplefilter("ignore")
    torch.from_numpy(numpy.broadcast_to(numpy.float32(0), 1))


def kernel(*names):
    """Register the factory of some operators: ``factory(xp, in_specs, out_specs, attrs)`` gives a function of tensors
    (and of the numbers and Nones among the inputs) that returns tensors, or None: use the reference kernel.
    """
    def add(factory):
        for name in names:
            FACTORIES[name] = factory
        return factory
    return add


def bind(xp, name, in_specs, out_specs, attrs):
    """The function of arrays of operator ``name`` for these specs; None: use the reference kernel."""
    if name not in FACTORIES or (xp.__name__ == "cupy" and not torch.cuda.is_available()):
        return None
    if any(isinstance(s, ArraySpec) and s.dtype.name not in _KNOWN for s in in_specs):
        return None
    function = FACTORIES[name](xp, in_specs, out_specs, attrs)
    if function is None:
        return None
    to_tensor, to_array, stream = exchange(xp)
    kind = xp.ndarray

    def run(*inputs, **options):
        with stream():
            results = function(*[to_tensor(x) if isinstance(x, kind) else x for x in inputs], **options)
        if isinstance(results, torch.Tensor):
            return to_array(results)
        return tuple([to_array(r) if isinstance(r, torch.Tensor) else r for r in results])
    return run


def exchange(xp):
    """(array to tensor, tensor to array, the context in which to compute) of an array module."""
    if xp.__name__ == "numpy":
        return torch.from_numpy, torch.Tensor.numpy, contextlib.nullcontext

    def on_current_stream():
        return torch.cuda.stream(torch.cuda.ExternalStream(xp.cuda.get_current_stream().ptr))
    return torch.from_dlpack, xp.from_dlpack, on_current_stream


def supported(*specs):
    """Whether all are arrays of one supported dtype with at least one element."""
    specs = [s for s in specs if s is not type(None)]
    return all(isinstance(s, ArraySpec) and s.size for s in specs) and specs[0].dtype.name in _COMPUTED \
        and all(s.dtype == specs[0].dtype for s in specs)
