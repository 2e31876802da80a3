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
        self._generator = None           # (generator, its bits, a state to fill in), made at the first draw

    def generator(self, state):
        """The generator of one draw. ``state`` is (seed, draw): the Philox counter block ``draw`` under the key
        (seed, device), so the numbers depend on neither timing, batching nor mode (Salmon et al., SC 2011)."""
        seed, draw = state
        if self._generator is None:
            bits = numpy.random.Philox(key=0)
            self._generator = numpy.random.Generator(bits), bits, bits.state
        generator, bits, fields = self._generator        # setting the state costs a tenth of a new generator
        fields["state"]["key"][0] = seed & 0xFFFFFFFFFFFFFFFF
        fields["state"]["key"][1] = self.index + (1 << 32 if self.kind == "gpu" else 0)
        fields["state"]["counter"][:] = 0, 0, draw, 0
        fields["buffer_pos"], fields["has_uint32"] = 4, 0
        bits.state = fields
        return generator

    def synchronize(self):
        """Return when all started work is done (at once: NumPy computes in the calling thread)."""

    def set_threads(self, count):
        """Let kernels use ``count`` threads (BLAS, OpenMP)."""
        import threadpoolctl
        threadpoolctl.threadpool_limits(count)
        _threads["count"] = count
        for function in _threads["followers"]:
            function(count)

    def empty_cache(self):
        """Give freed memory back to the system."""
        _libc_call("malloc_trim", 0)

    def memory_info(self):
        """(free, total) bytes of the memory this device allocates from."""
        import os
        page = os.sysconf("SC_PAGE_SIZE")
        return os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page


_threads: dict = {"count": None, "followers": []}


def follow_threads(function):
    """Call ``function(count)`` now and whenever the number of threads of this process's kernels is set."""
    _threads["followers"].append(function)
    if _threads["count"] is not None:
        function(_threads["count"])


def keep_freed_memory():
    """Let malloc keep large freed blocks instead of returning them to the kernel.

    Arrays of training steps have the same sizes step after step; by default glibc maps and unmaps each block over
    128 KiB, and touching fresh pages costs several times the arithmetic. No effect where glibc is absent.
    """
    _libc_call("mallopt", -3, 1 << 30)       # M_MMAP_THRESHOLD
    _libc_call("mallopt", -1, 1 << 29)       # M_TRIM_THRESHOLD


def _libc_call(name, *args):
    """Call a function of glibc where there is one."""
    if sys.platform.startswith("linux"):
        try:
            getattr(ctypes.CDLL("libc.so.6"), name)(*args)
        except (OSError, AttributeError):    # another C library: nothing to tune
            return
