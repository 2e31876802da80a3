"""Memory figures of devices."""
from __future__ import annotations

from . import protocol
from .device import Device, as_device
from .engine import engine


def gpu_memory_info(device_id=0):
    """(free, total) bytes of ``gpu(device_id)``."""
    device = Device("gpu", device_id)
    engine.queue(device).check()
    return engine.ensure().memory_info(device)


def memory_stats(device=None) -> dict:
    """``free``, ``total``: bytes of the memory that ``device`` (None: the current one) allocates from."""
    device = as_device(device)
    engine.queue(device).check()
    free, total = engine.ensure().memory_info(device)
    return {"free": free, "total": total}


def empty_cache(device=None):
    """Give a device's cached free memory back to the system."""
    queue = engine.queue(as_device(device))
    queue.push((protocol.EMPTY_CACHE,), "empty_cache")
    queue.kick()
