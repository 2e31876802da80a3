"""Arrays (``mx.nd``)."""
from .array import NDArray, ndarray  # noqa: F401
