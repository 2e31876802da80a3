"""``mx.dlpack``: functions that make and take DLPack capsules, for a given class of arrays."""
from __future__ import annotations

from .ndarray.interop import from_dlpack_as, from_numpy_as, to_dlpack_for_read, to_dlpack_for_write


def ndarray_from_dlpack(array_cls):
    """A function from a DLPack capsule, or an object with ``__dlpack__``, to an array of class ``array_cls``."""
    return lambda dlpack: from_dlpack_as(array_cls, dlpack)


def ndarray_from_numpy(array_cls, array_create_fn=None):
    """A function ``(ndarray, zero_copy=True)`` from a NumPy array to an array of class ``array_cls``.
    ``array_create_fn`` is what MXNet copies with; it is not needed here."""
    return lambda ndarray, zero_copy=True: from_numpy_as(array_cls, ndarray, zero_copy)


def ndarray_to_dlpack_for_read():
    """A function from an array to a DLPack capsule of it that is only read."""
    return to_dlpack_for_read


def ndarray_to_dlpack_for_write():
    """A function from an array to a DLPack capsule of it that may be written to."""
    return to_dlpack_for_write
