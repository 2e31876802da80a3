"""What this installation can do (``mx.runtime``), under the names that MXNet gives its compile-time features."""
from __future__ import annotations

import importlib.util
from collections import OrderedDict, namedtuple

from .errors import ArgumentError, MXNetError

__all__ = ["Feature", "Features", "feature_list", "get_branch", "get_commit_hash"]

_NAMES = ("CUDA CUDNN NCCL TENSORRT CUTENSOR CPU_SSE CPU_SSE2 CPU_SSE3 CPU_SSE4_1 CPU_SSE4_2 CPU_SSE4A CPU_AVX "
          "CPU_AVX2 OPENMP SSE F16C JEMALLOC BLAS_OPEN BLAS_ATLAS BLAS_MKL BLAS_APPLE LAPACK ONEDNN OPENCV "
          "DIST_KVSTORE INT64_TENSOR_SIZE SIGNAL_HANDLER DEBUG TVM_OP").split()


class Feature(namedtuple("Feature", "name enabled")):
    """A feature's ``name`` and whether it is ``enabled``."""
    __slots__ = ()

    def __repr__(self):
        return f"{'✔' if self.enabled else '✖'} {self.name}"


def _installed(module):
    return importlib.util.find_spec(module) is not None


def feature_list():
    """All features. CUDA, CUDNN and NCCL stand for CuPy, which brings them; BLAS and LAPACK are NumPy's; arrays may
    have more than 2**31 elements, and trainers may span servers, always."""
    enabled = {"LAPACK", "BLAS_OPEN", "INT64_TENSOR_SIZE", "DIST_KVSTORE", "F16C", "SIGNAL_HANDLER"}
    if _installed("cupy"):
        enabled |= {"CUDA", "CUDNN", "NCCL"}
    if _installed("cv2"):
        enabled.add("OPENCV")
    return [Feature(name, name in enabled) for name in _NAMES]


class Features(OrderedDict):
    """The one dictionary of feature names to :class:`Feature`."""
    instance = None

    def __new__(cls):
        if cls.instance is None:
            cls.instance = super().__new__(cls)
            OrderedDict.__init__(cls.instance, [(f.name, f) for f in feature_list()])
        return cls.instance

    def __init__(self):
        """Filled once, by :meth:`__new__`."""

    def __repr__(self):
        return str(list(self.values()))

    def is_enabled(self, feature_name):
        """Whether a feature is there; an unknown name raises MXNetError (a RuntimeError)."""
        if not isinstance(feature_name, str):
            raise ArgumentError(f"a feature's name is a string, not {feature_name!r}")
        name = feature_name.upper()
        if name not in self:
            raise MXNetError(f"feature {feature_name!r} is unknown; known features are {', '.join(self)}")
        return self[name].enabled


def get_branch():
    """The version-control branch of this build: not recorded, so empty."""
    return ""


def get_commit_hash():
    """The version-control commit of this build: not recorded, so empty."""
    return ""
