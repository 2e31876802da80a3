"""Exchange of arrays with other libraries, as functions of ``mx.np``."""
from __future__ import annotations

from ..ndarray.interop import NPX_FUNCTIONS, shares_memory

__all__ = ["from_dlpack", "shares_memory", "may_share_memory"]

may_share_memory = shares_memory


def from_dlpack(x):
    """An array from an object with ``__dlpack__`` (a PyTorch tensor, a NumPy array, ...) or a DLPack capsule."""
    return NPX_FUNCTIONS["from_dlpack"](x)
