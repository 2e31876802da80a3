"""Arrays to files and back: NumPy's ``.npy`` and ``.npz``, and MXNet's own binary format (``nd.save``).

A file is recognised by its first bytes, whatever its name. Loaded arrays are always on ``cpu(0)``, wherever they were
saved from; move them with ``to_device``. The binary format, little-endian throughout: a list magic, the number of
arrays, each array (a version magic, storage type, shape, device, type flag, values), the number of names, the names.
MXNet writes and reads version 3 under NumPy shapes (MXNet 2's default), version 2 in legacy mode (MXNet 1); raynd
writes as MXNet does, and reads every version, that without a version number included, in both modes.
"""
from __future__ import annotations

import errno
import io
import os
import struct
import zlib

import numpy

from .. import config
from ..device import cpu
from ..dispatch import Proxy, stage
from ..errors import ArgumentError, MXNetError, ShapeError
from ..spec import bfloat16
from .array import NDArray, ndarray

_LIST, _V1, _V2, _V3 = 0x112, 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_TYPES = ["float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool", "int16", "uint16", "uint32",
          "uint64", "bfloat16"]
_NPY, _ZIP = b"\x93NUMPY", (b"PK\x03\x04", b"PK\x05\x06")


def _dtype(flag):
    if not 0 <= flag < len(_TYPES):
        raise MXNetError(f"invalid array file: type flag {flag} is unknown")
    return bfloat16 if _TYPES[flag] == "bfloat16" else numpy.dtype(_TYPES[flag])


# -- NumPy's formats -----------------------------------------------------------------------------------------------


def save(file, arr):
    """Write one array to ``file`` (a path or an open binary file) in the ``.npy`` format."""
    if not isinstance(arr, Proxy):
        raise ShapeError(f"save: data needs to be an array, not {type(arr).__name__}; several arrays go with savez")
    _write(file, lambda f: numpy.save(f, arr.asnumpy(), allow_pickle=False))


def savez(file, /, *args, **kwds):
    """Write arrays to ``file`` in the ``.npz`` format, under their keywords, or as 'arr_0', 'arr_1', ..."""
    arrays = dict(kwds)
    for i, arg in enumerate(args):
        if f"arr_{i}" in arrays:
            raise ShapeError(f"savez: the {i}-th array and the keyword arr_{i} have the same name")
        arrays[f"arr_{i}"] = arg
    for name, x in arrays.items():
        if not isinstance(x, Proxy):
            raise ArgumentError(f"savez: {name} must be an array, not {type(x).__name__}")
    save_dict(file, arrays)


def save_dict(file, arrays):
    """Write a dict of arrays (NumPy arrays too) to ``file`` in the ``.npz`` format."""
    import zipfile

    def write(f):
        # as numpy.savez, which would take keys such as 'file' for its own arguments
        with zipfile.ZipFile(f, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, x in arrays.items():
                with archive.open(name + ".npy", "w", force_zip64=True) as member:
                    values = x.asnumpy() if isinstance(x, Proxy) else numpy.asarray(x)
                    numpy.lib.format.write_array(member, values, allow_pickle=False)
    _write(file, write)


def _write(file, function):
    if hasattr(file, "write"):
        function(file)
    else:
        with open(_path(file), "wb") as f:
            function(f)


def _path(file):
    if not isinstance(file, (str, os.PathLike)):
        raise ArgumentError(f"a file name is needed, not {type(file).__name__}")
    return os.path.expanduser(os.fspath(file))


# What the contents of a damaged file lead to, here, in NumPy and in zipfile.
_DAMAGED = (EOFError, struct.error, ValueError, LookupError, ArithmeticError, MemoryError, NotImplementedError,
            RuntimeError, zlib.error)


def read(file):
    """What a file (path, binary file or bytes) holds, as NumPy arrays: one array (``.npy``), a dict or a list."""
    try:
        if isinstance(file, (bytes, bytearray, memoryview)):
            return _read(io.BytesIO(file))
        if hasattr(file, "read"):
            return _read(file if file.seekable() else io.BytesIO(file.read()))
        with open(_path(file), "rb") as f:
            return _read(f)
    except _DAMAGED as error:
        if isinstance(error, MXNetError):
            raise
        raise MXNetError(f"invalid array file: {error}") from None


def _read(f):
    import zipfile
    head = f.read(8)
    f.seek(-len(head), io.SEEK_CUR)
    if head[:4] in _ZIP:
        try:
            with numpy.load(f, allow_pickle=False) as archive:
                return _members(archive)
        except (zipfile.BadZipFile, OSError) as error:
            if isinstance(error, OSError) and error.errno != errno.EINVAL:      # that one: a seek to before the start
                raise
            raise MXNetError(f"invalid array file: {error}") from None
    if head[:6] == _NPY:
        return _known(numpy.lib.format.read_array(f, allow_pickle=False))
    return _read_binary(f)


def _members(archive):
    """The arrays of an ``.npz`` file. A sparse one of MXNet's is a folder of its parts; it is read as a dense one. Its
    'format' is not looked at: MXNet writes it with a header that is none."""
    names = set(archive.files)
    sparse = [n[:-len("/format")] for n in archive.files if n.endswith("/format")]
    sparse = [n for n in sparse if {f"{n}/data", f"{n}/indices", f"{n}/shape"} <= names]
    parts = {f"{n}/{part}" for n in sparse for part in ("data", "indices", "indptr", "shape", "format")}
    arrays = {n: _known(archive[n]) for n in archive.files if n not in parts}
    for n in sparse:
        aux = [archive[f"{n}/{part}"] for part in ("indptr", "indices") if f"{n}/{part}" in names]
        arrays[n] = _dense(len(aux), tuple(archive[f"{n}/shape"].tolist()), archive[f"{n}/data"], aux)
    return arrays


def _known(values):
    """NumPy writes bfloat16 as two opaque bytes."""
    return values.view(bfloat16) if values.dtype.kind == "V" and values.dtype.itemsize == 2 else values


def _on_cpu(values, cls):
    if isinstance(values, dict):
        return {name: stage(v, cpu(0), cls) for name, v in values.items()}
    if isinstance(values, list):
        return [stage(v, cpu(0), cls) for v in values]
    return stage(values, cpu(0), cls)


def load(file):
    """np arrays from a file of any of the formats: one array, a list of arrays, or a dict of names to arrays.

    Raises MXNetError for a file that is damaged or of another kind, OSError for one that cannot be read, and ValueError
    in legacy mode, where arrays are NDArrays: ``nd.load`` reads the same files.
    """
    if not (config.np_shape() and config.np_array()):
        raise ShapeError("npx.load makes mx.np arrays and needs NumPy semantics: call npx.set_np() first, or use "
                         "nd.load")
    if not isinstance(file, (str, os.PathLike)) and not hasattr(file, "read"):
        raise ArgumentError("load: file must be a file name or an open file")
    values = read(file)
    if isinstance(values, list) and len(values) == 1:
        values = values[0]
    return _on_cpu(values, ndarray)


# -- MXNet's binary format -----------------------------------------------------------------------------------------


def _shape(f):
    ndim, = struct.unpack("<i", _take(f, 4))
    if ndim > 64:
        raise MXNetError(f"invalid array file: an array of {ndim} axes")
    return None if ndim < 0 else struct.unpack(f"<{ndim}q", _take(f, 8 * ndim))


_SMALL = 1 << 16


def _take(f, count):
    if count > _SMALL:                                   # a damaged count must not decide how much memory is asked for
        here = f.tell()
        left = f.seek(0, io.SEEK_END) - here
        f.seek(here)
    else:
        left = count
    data = f.read(count) if count <= left else b""
    if len(data) != count:
        raise MXNetError("invalid array file: it ends too early")
    return data


def _values(f, shape, flag):
    dtype = _dtype(flag)
    count = 1
    for n in shape:
        if n < 0:
            raise MXNetError(f"invalid array file: an array of shape {shape}")
        count *= n
    return numpy.frombuffer(bytearray(_take(f, count * dtype.itemsize)), dtype).reshape(shape)


def _read_array(f):
    magic, = struct.unpack("<I", _take(f, 4))
    storage = 0
    if magic in (_V2, _V3):
        storage, = struct.unpack("<i", _take(f, 4))
        if storage in (1, 2):
            _shape(f)                                    # of the values; MXNet may write it before it is known
        elif storage != 0:
            raise MXNetError(f"invalid array file: storage type {storage} is unknown")
        shape = _shape(f)
    elif magic == _V1:
        shape = _shape(f)
    elif magic <= 64:
        shape = struct.unpack(f"<{magic}I", _take(f, 4 * magic))
    else:
        raise MXNetError("invalid array file: no array where one should be")
    if shape is not None and (not shape or 0 in shape) and magic in (_V2, _V3) and config.np_shape() != (magic == _V3):
        raise MXNetError(f"an array of shape {shape} was saved with NumPy shapes {'on' if magic == _V3 else 'off'} and "
                         "must be loaded so: with mx.util.np_shape(True or False)")
    if shape is None or (shape == () and magic != _V3):
        return numpy.zeros((0,), "float32")              # an array that had no contents
    _take(f, 8)                                          # the device it was on
    flag, = struct.unpack("<i", _take(f, 4))
    if storage == 0:
        return _values(f, shape, flag)
    indices = [(struct.unpack("<i", _take(f, 4))[0], _shape(f)) for _ in range(storage)]
    count = indices[-1][1][0]
    data = _values(f, (count, *shape[1:]) if storage == 1 else (count,), flag)
    return _dense(storage, shape, data, [_values(f, s, kind) for kind, s in indices])


def _dense(storage, shape, data, aux):
    """A sparse array of a file as a dense one: row_sparse (1) has row numbers, csr (2) row starts and columns."""
    result = numpy.zeros(shape, data.dtype)
    if storage == 1:
        result[aux[0]] = data
    else:
        starts, columns = aux
        result[numpy.repeat(numpy.arange(shape[0]), numpy.diff(starts)), columns] = data
    return result


def _read_binary(f):
    magic, _ = struct.unpack("<QQ", _take(f, 16))
    if magic != _LIST:
        raise MXNetError("invalid array file: it is none of .npy, .npz and MXNet's binary format")
    arrays = [_read_array(f) for _ in range(struct.unpack("<Q", _take(f, 8))[0])]
    names = []
    for _ in range(struct.unpack("<Q", _take(f, 8))[0]):
        length, = struct.unpack("<Q", _take(f, 8))
        names.append(_take(f, length).decode())
    if names and len(names) != len(arrays):
        raise MXNetError(f"invalid array file: {len(arrays)} arrays, {len(names)} names")
    return dict(zip(names, arrays)) if names else arrays


def _write_array(f, x):
    values = numpy.ascontiguousarray(x.asnumpy()).reshape(x.shape)
    version = _V3 if config.np_shape() else _V2
    if values.dtype.name not in _TYPES:
        raise ArgumentError(f"nd.save cannot store arrays of dtype {values.dtype}")
    f.write(struct.pack("<Iii", version, 0, values.ndim) + struct.pack(f"<{values.ndim}q", *values.shape))
    f.write(struct.pack("<iii", 1, 0, _TYPES.index(values.dtype.name)))
    f.write(values.reshape(-1).view("uint8").data)


def _get_state(self):
    """The state of a pickled NDArray in MXNet: the array in the binary format."""
    f = io.BytesIO()
    _write_array(f, self)
    return {"handle": f.getvalue()}


def _set_state(self, state):
    """Take the values of a state of MXNet's or ours."""
    handle = state["handle"]
    if handle is not None:
        self.__init__(*_staged(_read_array(io.BytesIO(handle)), type(self)))


def _staged(values, cls):
    x = stage(values, cpu(0), cls)
    return x._buffer, x._spec


NDArray.__getstate__, NDArray.__setstate__ = _get_state, _set_state


def save_legacy(fname, data):
    """Write an NDArray, a list or a dict of NDArrays to a file in MXNet's binary format."""
    if isinstance(data, Proxy):
        data = [data]
    if isinstance(data, dict):
        names, arrays = list(data), list(data.values())
    elif isinstance(data, (list, tuple)):
        names, arrays = [], list(data)
    else:
        raise ShapeError("save: data needs to be an NDArray, a dict of str to NDArray, or a list of NDArrays")
    if any(not isinstance(n, str) for n in names) or any(not isinstance(x, NDArray) for x in arrays):
        raise ArgumentError("save only accepts a dict of str to NDArray, or a list of NDArrays")
    if any(isinstance(x, ndarray) for x in arrays):
        raise ArgumentError("nd.save does not take mx.np arrays; use npx.savez, or as_nd_ndarray()")

    def write(f):
        f.write(struct.pack("<QQQ", _LIST, 0, len(arrays)))
        for x in arrays:
            _write_array(f, x)
        f.write(struct.pack("<Q", len(names)))
        for name in names:
            encoded = name.encode()
            f.write(struct.pack("<Q", len(encoded)) + encoded)
    _write(fname, write)


def load_legacy(fname):
    """Arrays from a file of any of the formats: a list of NDArrays, or a dict of names to NDArrays."""
    if not isinstance(fname, (str, os.PathLike)):
        raise ArgumentError("load: fname must be a file name")
    values = read(fname)
    return _on_cpu([values] if isinstance(values, numpy.ndarray) else values, NDArray)


def load_frombuffer(buf):
    """:func:`load_legacy` from the bytes of a file."""
    if not isinstance(buf, (bytes, bytearray, memoryview)):
        raise ArgumentError("load_frombuffer: buf must be bytes")
    values = read(buf)
    return _on_cpu([values] if isinstance(values, numpy.ndarray) else values, NDArray)
