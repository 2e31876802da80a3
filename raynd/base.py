"""Names that MXNet code imports from ``mxnet.base``."""
from __future__ import annotations

from .errors import MXNetError

string_types = (str,)
numeric_types = (float, int)
integer_types = (int,)


def _as_list(obj):
    """A list: of ``obj`` if it is no list or tuple."""
    return obj if isinstance(obj, (list, tuple)) else [obj]


__all__ = ["MXNetError", "string_types", "numeric_types", "integer_types"]
