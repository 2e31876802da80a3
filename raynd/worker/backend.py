"""The array module of a device (``xp``), its random generators and its memory figures."""
from __future__ import annotations

import ctypes
import sys

import numpy


class Backend:
    """NumPy on a CPU device. ``index`` makes the random numbers of devices differ."""

    def __init__(self, kind="cpu", index=0):
        self.xp = numpy
        self.kind, self.index = kind, index
        self.array_type = numpy.ndarray

    def generator(self, state):
        """The generator of one draw. ``state`` is (seed, draw): the Philox counter block ``draw`` under the key
        (seed, device), so the numbers depend on neither timing, batching nor mode (Salmon et al., SC 2011)."""
        seed, draw = state
        device = self.index + (1 << 32 if self.kind == "gpu" else 0)
        return numpy.random.Generator(numpy.random.Philox(key=[seed & 0xFFFFFFFFFFFFFFFF, device],
                                                          counter=[0, 0, draw, 0]))

    def synchronize(self):
        """Return when all started work is done (at once: NumPy computes in the calling thread)."""

    def memory_info(self):
        """(free, total) bytes of the memory this device allocates from."""
        import os
        page = os.sysconf("SC_PAGE_SIZE")
        return os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page


def keep_freed_memory():
    """Let malloc keep large freed blocks instead of returning them to the kernel.

    Arrays of training steps have the same sizes step after step; by default glibc maps and unmaps each block over
    128 KiB, and touching fresh pages costs several times the arithmetic. No effect where glibc is absent.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        libc = ctypes.CDLL("libc.so.6")
        M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
        libc.mallopt(M_MMAP_THRESHOLD, 1 << 30)
        libc.mallopt(M_TRIM_THRESHOLD, 1 << 29)
    except (OSError, AttributeError):        # another C library: nothing to tune
        return
