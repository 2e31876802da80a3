"""``mx.contrib``: another way to the functions of ``mx.nd.contrib`` (``mx.contrib.nd``, ``mx.contrib.ndarray``)."""
from __future__ import annotations

from .ndarray import contrib as nd

ndarray = nd

__all__ = ["nd", "ndarray"]
