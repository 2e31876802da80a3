"""``mx.npx``: neural-network operators and what else is not NumPy's."""
from __future__ import annotations

from ..device import cpu, cpu_pinned, current_device, gpu  # noqa: F401
from ..engine import waitall  # noqa: F401
from ..ndarray.bindings import export
from ..random import seed  # noqa: F401

globals().update(export("npx", __name__))

from . import shapes as _shapes  # noqa: E402

globals().update({_name: getattr(_shapes, _name) for _name in _shapes.__all__})
