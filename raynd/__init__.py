"""raynd: MXNet-compatible arrays and deep learning on Ray actors (``import raynd as mx``).

The operator records load at once, for driver and actors alike; other submodules on first use, so that an actor, which
needs only the records and the worker, stays small.
"""
from __future__ import annotations

import importlib

from .ops import registry as _operators

_operators.load_all()

__version__ = "0.1.0"

_MODULES = {
    "np": "numpy", "numpy": "numpy", "npx": "numpy_extension", "numpy_extension": "numpy_extension",
    "nd": "ndarray", "ndarray": "ndarray", "autograd": "autograd", "gluon": "gluon", "random": "random",
    "init": "initializer", "initializer": "initializer", "optimizer": "optimizer", "lr_scheduler": "lr_scheduler",
    "kv": "kvstore", "kvstore": "kvstore", "engine": "engine", "device": "device", "context": "context",
    "base": "base", "util": "util", "runtime": "runtime", "test_utils": "test_utils", "errors": "errors",
    "error": "errors", "metric": "gluon.metric", "memory": "memory",
    "dlpack": "dlpack", "operator": "operator", "name": "name", "attribute": "attribute",
    "contrib": "contrib", "registry": "registry",
}
_NAMES = {
    "Device": "device", "Context": "device", "cpu": "device", "gpu": "device", "cpu_pinned": "device",
    "cpu_shared": "device", "current_device": "device", "current_context": "device", "default_context": "device",
    "MXNetError": "errors", "DeviceLostError": "errors",
    "init_runtime": "session", "shutdown": "session", "devices": "session", "num_gpus": "device",
    "gpu_memory_info": "device", "memory_stats": "memory", "empty_cache": "memory",
    "waitall": "engine", "NDArray": "ndarray", "AttrScope": "attribute",
    "set_np": "util", "set_np_shape": "util", "reset_np": "util", "is_np_array": "util", "is_np_shape": "util",
    "use_np": "util",
    "np_shape": "util", "np_array": "util", "use_np_array": "util", "use_np_shape": "util",
    "is_np_default_dtype": "util", "np_default_dtype": "util", "use_np_default_dtype": "util",
    "set_np_default_dtype": "util",
}
# What MXNet has and this release does not, for the error.
_ABSENT = {
    **dict.fromkeys(("sym", "symbol"), "symbols"),
    **dict.fromkeys(("mod", "module", "model"), "symbolic modules (use gluon: an array program is a Block)"),
    "recordio": "RecordIO files",
}


def __getattr__(name):
    if name in _MODULES:
        value = importlib.import_module(f"{__name__}.{_MODULES[name]}")
        if name == "init":                    # both the initializers (mx.init.Xavier) and a call (mx.init(mode=...))
            value = importlib.import_module(f"{__name__}.session").callable_module(value)
    elif name in _NAMES:
        value = getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    else:
        reason = f": {_ABSENT[name]} are not part of this release" if name in _ABSENT else ""
        raise AttributeError(f"module 'raynd' has no attribute {name!r}{reason}")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_MODULES, *_NAMES})
