"""The array module of a device (``xp``), its random generators and its memory figures."""
from __future__ import annotations

import ctypes
import sys

import numpy

from ..errors import DeviceError
from ..ops import parallel


class Backend:
    """NumPy, on a CPU device or on one that plays a GPU. ``index`` makes the random numbers of devices differ."""
    can_share = True                     # arrays can be marked read-only, so that two ids may share one until a write

    def __init__(self, kind="cpu", index=0):
        self.xp = numpy
        self.kind, self.index = kind, index
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

    def to_host(self, array):
        """The NumPy array of a device array."""
        return array

    def from_host(self, array):
        """The device array of a NumPy array, which may be read-only."""
        return array

    def synchronize(self):
        """Return when all started work is done (at once: NumPy computes in the calling thread)."""

    def set_threads(self, count):
        """Let kernels use ``count`` threads (BLAS, OpenMP)."""
        import threadpoolctl
        threadpoolctl.threadpool_limits(count)
        _threads["count"] = count
        parallel.set_threads(count)
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


class CupyBackend(Backend):
    """CuPy on a real GPU: the one that Ray made visible to this process."""
    can_share = False                    # CuPy arrays cannot be read-only

    def __init__(self, kind="gpu", index=0):
        super().__init__(kind, index)
        try:
            import cupy
        except ImportError as error:
            raise DeviceError(f"{kind}({index}) is a GPU, and CuPy cannot be imported on its node ({error}); install "
                              "raynd there with its extra 'gpu'") from None
        self.xp = cupy

    def generator(self, state):
        seed, draw = state
        mixed = numpy.random.SeedSequence([seed, draw, self.index, 1]).generate_state(1, numpy.uint64)[0]
        return self.xp.random.Generator(self.xp.random.Philox4x3210(seed=int(mixed)))

    def to_host(self, array):
        return self.xp.asnumpy(array)

    def from_host(self, array):
        return self.xp.asarray(array)

    def synchronize(self):
        self.xp.cuda.get_current_stream().synchronize()

    def empty_cache(self):
        self.xp.get_default_memory_pool().free_all_blocks()

    def memory_info(self):
        return self.xp.cuda.runtime.memGetInfo()


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
