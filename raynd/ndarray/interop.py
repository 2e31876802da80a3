"""Exchange of arrays with other libraries: DLPack both ways, and arrays over NumPy memory.

Where the worker of a CPU device lives in this process (local mode), memory is shared, as in MXNet: writes through one
side show on the other until the array is next overwritten as a whole. Otherwise (Ray mode, GPU devices) the data is
copied, and what is handed out is always memory of this process: its DLPack device is the CPU.

DLPack: https://dmlc.github.io/dlpack/latest/python_spec.html
"""
from __future__ import annotations

import warnings

import numpy

from .. import protocol
from ..device import as_device, cpu, gpu
from ..dispatch import Buffer, Content, Proxy, materialised, stage, writable_wire
from ..engine import engine, next_id
from ..errors import ArgumentError, ShapeError
from ..spec import bfloat16, spec
from .array import NDArray, ndarray

_CPU = 1, 0                                  # kDLCPU, device 0


def _local_worker(queue):
    """The worker of a CPU device in this process, else None."""
    if queue.tracing or not getattr(engine.executor, "in_process", False) or queue.device.device_type == "gpu":
        return None
    return getattr(queue.link, "worker", None)


def memory(x, write=False):
    """The values of ``x`` as a NumPy array: the array's own memory where the worker is in this process (writable if
    ``write``), else None. Waits."""
    queue = materialised(x)._buffer.queue
    worker = _local_worker(queue)
    if worker is None:
        return None
    wire = writable_wire(x) if write else x._wire()
    engine.finish(queue.ask(protocol.WAIT, wire, "sharing memory"))
    return worker.target(wire) if write else worker.value(wire)


def adopt(values, device, cls):
    """An array of class ``cls`` over the memory of ``values`` (a C-contiguous NumPy array) where the worker of
    ``device`` is in this process, else of a copy."""
    queue = engine.queue(device)
    queue.check()
    if _local_worker(queue) is None:
        return stage(values, device, cls)
    array_spec = spec(values.shape, values.dtype)
    content = Content(next_id(), queue.pending)
    flat = values.reshape(-1).view(numpy.uint8) if values.size else numpy.empty(0, numpy.uint8)
    queue.push((protocol.PUT, content.id, flat, array_spec.shape, array_spec.dtype.name), "put")
    queue.kick()
    return cls(Buffer(content, queue), array_spec)


# -- DLPack out ----------------------------------------------------------------------------------------------------


def _exported(x, write):
    """The NumPy array that is handed out for ``x``."""
    if x._spec.dtype == bfloat16:
        raise BufferError("NumPy cannot export bfloat16 over DLPack; cast the array to float32 first")
    values = memory(x, write)
    return x.asnumpy() if values is None else values


def _capsule(values, max_version=None):
    if not values.flags.writeable and (max_version is None or tuple(max_version) < (1, 0)):
        values = values.copy()               # the old form of the protocol cannot say that memory is read-only
    return values.__dlpack__(max_version=max_version)


def dlpack(self, stream=None, *, max_version=None, dl_device=None, copy=None):
    """A DLPack capsule of the values, for a consumer's ``from_dlpack``; waits for them.

    ``stream`` must be None: there are no streams on the CPU. ``copy``: True for a copy, False to refuse one.
    """
    if stream is not None:
        if type(stream) is not int:
            raise ArgumentError("The input stream must be int or None")
        raise ShapeError(f"Stream {stream} is not supported in current device {self.device}")
    if dl_device is not None and tuple(int(n) for n in dl_device) != _CPU:
        raise BufferError(f"the array can only be handed out on the CPU {_CPU}, not on {tuple(dl_device)}")
    shared = _local_worker(materialised(self)._buffer.queue) is not None
    if copy is False and not shared:
        raise BufferError(f"the array lives on {self.device}, outside of this process, so it can only be copied")
    values = _exported(self, shared and not copy)
    return _capsule(values.copy() if copy and shared else values, max_version)


def dlpack_device(self):
    """(1, 0), the CPU: what is handed out is memory of this process."""
    return _CPU


def to_dlpack_for_read(data):
    """A DLPack capsule of ``data``; waits for it. The consumer must not write to it."""
    _need_array(data)
    return dlpack(data)


def to_dlpack_for_write(data):
    """A DLPack capsule of ``data``; waits for it. Writes of the consumer show in ``data`` where its worker is in this
    process (local mode); elsewhere the capsule holds a copy, and a RuntimeWarning says so."""
    _need_array(data)
    if _local_worker(materialised(data)._buffer.queue) is None:
        warnings.warn(f"the array lives on {data.device}, in another process: the capsule is a copy, so what is "
                      "written to it does not reach the array; assign it back with x[:] = ...", RuntimeWarning,
                      stacklevel=2)
    return _capsule(_exported(data, True))


def _need_array(data):
    if not isinstance(data, Proxy):
        raise ArgumentError(f"an array is needed, not {type(data).__name__}")


# -- DLPack in -----------------------------------------------------------------------------------------------------


class _Capsule:
    """Makes a bare capsule an object that NumPy's from_dlpack takes."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return _CPU


def _is_capsule(value):
    return type(value).__name__ == "PyCapsule"


def from_dlpack_as(cls, value):
    """An array of class ``cls`` from a DLPack capsule or an object with ``__dlpack__``.

    CPU data comes to ``cpu(0)``, CUDA data to the GPU device of that number. In local mode CPU memory is shared if it
    is C-contiguous. Raises TypeError for other objects, and ValueError for a capsule that was used before.
    """
    device = cpu(0)
    if isinstance(value, Proxy):
        return adopt(memory(value, True), value.device, cls) if memory(value) is not None else _recast(value, cls)
    if _is_capsule(value):
        if '"used_' in repr(value):
            raise ShapeError("Invalid DLPack Tensor. DLTensor capsules can be consumed only once.")
        values = numpy.from_dlpack(_Capsule(value))
    elif hasattr(value, "__dlpack__"):
        kind, number = value.__dlpack_device__()
        if int(kind) == 2:                                   # kDLCUDA: by way of the host
            device = gpu(int(number))
            values = numpy.from_dlpack(value, device="cpu", copy=True)
        else:
            values = numpy.from_dlpack(value)
    else:
        raise ArgumentError(f"a DLPack capsule or an object with __dlpack__ is needed, not {type(value).__name__}")
    return adopt(numpy.ascontiguousarray(values).reshape(values.shape), device, cls)


def _recast(x, cls):
    """A copy of an array of ours, of class ``cls``."""
    return x.copy().as_np_ndarray() if cls is ndarray else x.copy().as_nd_ndarray()


def from_numpy_as(cls, values, zero_copy=True):
    """An array of class ``cls`` with the values and dtype of a NumPy array, on the current CPU device.

    With ``zero_copy`` the array must be C-contiguous (else ValueError) and is made read-only, since the new array may
    stand in its memory: it does in local mode, in Ray mode it is a copy.
    """
    if not isinstance(values, numpy.ndarray):
        raise ArgumentError(f"from_numpy takes a numpy.ndarray, not {type(values).__name__}")
    device = as_device(None)
    device = device if device.device_type != "gpu" else cpu(0)
    if not zero_copy:
        return stage(values, device, cls)
    if not values.flags.c_contiguous:
        raise ShapeError("Only c-contiguous arrays are supported for zero-copy")
    try:                                     # it may have been made read-only by an earlier call
        values.flags.writeable = True
    except ValueError:
        pass                                 # memory that nobody may write to: the device copies before it writes
    own = values[...]                        # keeps its right to write when the caller's array loses it
    values.flags.writeable = False
    return adopt(own, device, cls)


def _functions(cls):
    def from_dlpack(dlpack):
        return from_dlpack_as(cls, dlpack)

    def from_numpy(ndarray, zero_copy=True):
        return from_numpy_as(cls, ndarray, zero_copy)

    from_dlpack.__doc__ = from_dlpack_as.__doc__.replace("class ``cls``", f"class {cls.__name__}")
    from_numpy.__doc__ = from_numpy_as.__doc__.replace("class ``cls``", f"class {cls.__name__}")
    return {"from_dlpack": from_dlpack, "from_numpy": from_numpy, "to_dlpack_for_read": to_dlpack_for_read,
            "to_dlpack_for_write": to_dlpack_for_write}


ND_FUNCTIONS = _functions(NDArray)           # of mx.nd
NPX_FUNCTIONS = _functions(ndarray)          # of mx.npx (and from_dlpack of mx.np)

# -- shared memory -------------------------------------------------------------------------------------------------


def shares_memory(a, b, max_work=None):
    """Whether two arrays (ours or NumPy's) share memory. ``max_work`` is accepted as NumPy's and not needed."""
    if isinstance(a, Proxy) and isinstance(b, Proxy):
        if a._buffer is not b._buffer:
            return _overlap(a, b)
        first, second = a._offset or 0, b._offset or 0
        return first < second + b._spec.size and second < first + a._spec.size
    return _overlap(a, b)


def _overlap(a, b):
    a, b = [memory(x) if isinstance(x, Proxy) else numpy.asarray(x) for x in (a, b)]
    return a is not None and b is not None and numpy.shares_memory(a, b)


def array_namespace(self, api_version=None):
    """``mx.np``, for code written against the Python array API standard (``api_version``: 'YYYY.MM', 2021.10 or
    later)."""
    if api_version is not None:
        try:
            year, month = [int(n) for n in api_version.split(".")]
        except (AttributeError, ValueError):
            raise ShapeError(f"Unrecognized array API version: {api_version!r}") from None
        if (year, month) < (2021, 10) or not 1 <= month <= 12:
            raise ShapeError(f"Unrecognized array API version: {api_version!r}")
    from importlib import import_module
    return import_module("raynd.numpy")


NDArray.__dlpack__, NDArray.__dlpack_device__ = dlpack, dlpack_device
NDArray.to_dlpack_for_read, NDArray.to_dlpack_for_write = to_dlpack_for_read, to_dlpack_for_write
ndarray.__array_namespace__ = array_namespace
