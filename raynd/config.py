"""The few settings, read from the environment in one place.

``MXNET_ENGINE_TYPE=NaiveEngine`` is MXNet's own name for ``RAYND_SYNC=1``.
"""
from __future__ import annotations

import contextvars
import os

from .errors import ArgumentError


def _integer(name, default, low=0):
    text = os.environ.get(name)
    if text is None or text == "":
        return default
    try:
        value = int(text)
    except ValueError:
        raise ArgumentError(f"environment variable {name} must be an integer, not {text!r}") from None
    if value < low:
        raise ArgumentError(f"environment variable {name} must be at least {low}, not {value}")
    return value


def mode() -> str:
    """``RAYND_MODE``: 'ray' (default) or 'local'."""
    value = os.environ.get("RAYND_MODE", "ray").lower()
    if value not in ("ray", "local"):
        raise ArgumentError(f"RAYND_MODE must be 'ray' or 'local', not {value!r}")
    return value


def address():
    """``RAYND_ADDRESS``, else ``RAY_ADDRESS``, else None (start a local Ray)."""
    return os.environ.get("RAYND_ADDRESS") or os.environ.get("RAY_ADDRESS") or None


def cpu_devices():
    """``RAYND_CPU_DEVICES``: how many cpu(i) there are; None: the cores, at least 4."""
    return _integer("RAYND_CPU_DEVICES", None, 1)


def simulate_gpus() -> int:
    """``RAYND_SIMULATE_GPUS``: how many gpu(i) are played by the CPU."""
    return _integer("RAYND_SIMULATE_GPUS", 0)


def synchronous() -> bool:
    """``RAYND_SYNC=1``: every command is waited for, so every error raises at its own line."""
    return os.environ.get("RAYND_SYNC", "0") not in ("", "0") or os.environ.get("MXNET_ENGINE_TYPE") == "NaiveEngine"


def kernels() -> str:
    """``RAYND_KERNELS``: 'reference', 'torch' or 'auto' (torch where it is installed)."""
    value = os.environ.get("RAYND_KERNELS", "auto")
    if value not in ("reference", "torch", "auto"):
        raise ArgumentError(f"RAYND_KERNELS must be 'reference', 'torch' or 'auto', not {value!r}")
    return value


def local_batch():
    """``RAYND_LOCAL_BATCH``: commands a batch in local mode (1), or 'random:SEED' (batches of random size that are
    pickled and back, for tests)."""
    return os.environ.get("RAYND_LOCAL_BATCH", "1")


def stall_seconds() -> float:
    """``RAYND_STALL_SECONDS``: a wait that lasts longer prints a report, and again after each further interval."""
    return float(_integer("RAYND_STALL_SECONDS", 30, 1))


def start_timeout() -> float:
    """``RAYND_START_TIMEOUT``: seconds to wait for a device's actor to start before saying what is missing."""
    return float(_integer("RAYND_START_TIMEOUT", 60, 1))


BATCH_COMMANDS = 256                       # flush a device's queue at this many commands ...
MAX_OUTSTANDING_COMMANDS = 4096            # ... and wait when this many have been sent and not completed,
MAX_OUTSTANDING_BYTES = 1 << 30            # or when their outputs and payloads come to this many bytes
INLINE_BYTES = 1 << 14                     # arrays up to this size ride inside the command stream


class Switch:
    """A mode that is on or off for the process, and may be set otherwise inside a block of one thread or task."""

    def __init__(self, name, value):
        self.value = value
        self.local: contextvars.ContextVar = contextvars.ContextVar(f"raynd_{name}", default=None)

    def __call__(self) -> bool:
        local = self.local.get()
        return self.value if local is None else local

    def set(self, value) -> bool:
        """Change the mode where it is in force: the innermost block, else the process. Returns the previous value."""
        previous = self()
        if self.local.get() is None:
            self.value = bool(value)
        else:
            self.local.set(bool(value))
        return previous


np_shape = Switch("np_shape", True)        # zero-dim and zero-size shapes mean what they mean in NumPy
np_array = Switch("np_array", True)        # gluon blocks and helpers make np.ndarray rather than nd.NDArray
