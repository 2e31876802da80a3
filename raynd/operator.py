"""Operators written in Python by users (``mx.operator``); they are called by ``mx.nd.Custom``."""
from __future__ import annotations

from .ndarray.custom import CustomOp, CustomOpProp, register

__all__ = ["CustomOp", "CustomOpProp", "register"]
