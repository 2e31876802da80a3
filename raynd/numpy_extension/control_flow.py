"""``mx.npx.control_flow``: loops and branches as functions."""
from __future__ import annotations

from ..ndarray.control_flow import cond, foreach, while_loop

__all__ = ["cond", "foreach", "while_loop"]
