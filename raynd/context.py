"""Older name of :mod:`raynd.device`."""
from __future__ import annotations

from .device import Context, Device, cpu, cpu_pinned, cpu_shared, current_context, current_device, default_context, gpu
from .memory import gpu_memory_info
from .session import num_gpus

__all__ = ["Context", "Device", "cpu", "cpu_pinned", "cpu_shared", "current_context", "current_device",
           "default_context", "gpu", "gpu_memory_info", "num_gpus"]
