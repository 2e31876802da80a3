"""``mx.npx.image``: operators on images, arrays of shape (height, width, channels), and on batches of them."""
from __future__ import annotations

from ..ndarray.bindings import export as _export

_functions = _export("image", __name__)
__all__ = sorted(_functions)
globals().update(_functions)
