"""Shared memory that is allocated once, reused, and passed between processes by descriptor.

The first touch of a fresh page costs 6-7 times a copy into a used one, so a :class:`RegionPool` keeps what its owner
and the readers have let go and hands it out again. The memory is a memfd: it has no name, so nothing can be left
behind; the kernel frees it when the last process that maps it is gone, whatever ended that process.

Nothing here takes a lock. ``Region.release`` is called by finalizers, which the garbage collector may run between any
two bytecodes of ``allocate`` itself, on the same thread; a lock would deadlock there and a reentrant one would let the
finalizer see a half-made change. All shared state therefore changes by single ``list``, ``deque`` and ``dict``
operations, which are atomic in CPython.
"""
from __future__ import annotations

import errno
import itertools
import mmap
import os
import sys
import weakref
from collections import deque

import numpy as np

from ..errors import ArgumentError

try:
    import resource
except ImportError:                        # not a POSIX system
    resource = None

SMALLEST = 1 << 16
MAX_WASTE = 1.5                            # a free region serves requests down to 1/MAX_WASTE of its size
WANTED_DESCRIPTORS = 1 << 16


def shared_memory_available() -> bool:
    """Whether arrays can pass between processes of this machine without a copy through a socket."""
    return sys.platform.startswith("linux") and hasattr(os, "memfd_create")


def size_class(nbytes: int) -> int:
    """The smallest class of at least ``nbytes``: powers of two in quarter steps (64, 80, 96, 112, 128, 160 KiB ...)."""
    if nbytes <= SMALLEST:
        return SMALLEST
    step = 1 << ((nbytes - 1).bit_length() - 3)
    return -(-nbytes // step) * step


class Mapping:
    """A memfd mapped into this process, unmapped when nothing refers to it. It does not own ``fd``."""
    __slots__ = ("_map", "address", "capacity")

    def __init__(self, fd, capacity):
        self._map = mmap.mmap(fd, capacity)
        # The address outlives this temporary view because the map is never closed, only dropped.
        self.address = np.frombuffer(self._map, np.uint8).__array_interface__["data"][0]
        self.capacity = capacity

    def array(self, nbytes, offset):
        return np.frombuffer(self._map, np.uint8, nbytes, offset)


class Lease:
    """The base object of an array over somebody else's region; when the array and all its views are gone, so is it.

    NumPy takes the memory from ``__array_interface__`` and keeps this object as the array's base. It replaces the base
    of a view by the base's base only among ndarrays, so every view keeps the lease alive, and the lease the mapping.
    """
    __slots__ = ("__array_interface__", "_mapping", "_number", "_releases")

    def __init__(self, mapping, number, offset, nbytes, writable, releases):
        self.__array_interface__ = {"data": (mapping.address + offset, not writable), "shape": (nbytes,),
                                    "typestr": "|u1", "version": 3}
        self._mapping, self._number, self._releases = mapping, number, releases

    def __del__(self):
        self._releases.append(self._number)        # no lock, no send: the garbage collector may run this anywhere


class Region:
    """A piece of shared memory with a reference count; at 0 it goes back to its pool.

    Attributes: ``id`` (unique in its process, never used twice), ``fd`` (-1 once closed), ``capacity`` (bytes).
    An array made by :meth:`array` does not count as a reference: after the last ``release`` the pool may give the
    memory to someone else.
    """
    __slots__ = ("id", "fd", "capacity", "_mapping", "_pool", "_extra", "_idle", "_watchers")

    def __init__(self, pool, number, capacity):
        fd = os.memfd_create(f"raynd-{number}", os.MFD_CLOEXEC)
        try:
            os.ftruncate(fd, capacity)
            self._mapping = Mapping(fd, capacity)
        except BaseException:
            os.close(fd)
            raise
        self.id, self.fd, self.capacity, self._pool = number, fd, capacity, pool
        self._extra = []                   # a token for each reference but the first: see release()
        self._idle = False
        self._watchers = {}                # id(channel) -> its deque of ids to FORGET

    @property
    def refs(self) -> int:
        return 0 if self._idle else len(self._extra) + 1

    def array(self, nbytes=None, offset=0):
        """A writable uint8 view of ``nbytes`` (default: all) from ``offset``."""
        if self._mapping is None:
            raise ArgumentError(f"region {self.id} is closed")
        return self._mapping.array(self.capacity - offset if nbytes is None else nbytes, offset)

    def hold(self):
        """Add a reference. The caller must own one."""
        self._extra.append(None)

    def release(self):
        """Drop a reference. Safe on any thread and in a finalizer."""
        # Whoever finds no token left drops the last reference; pop() decides it for exactly one caller.
        try:
            self._extra.pop()
        except IndexError:
            if self._idle:
                raise ArgumentError(f"region {self.id} was released more often than held") from None
            self._idle = True
            self._pool._give_back(self)

    def _close(self):
        self._pool._regions.pop(self.id, None)
        for forget in list(self._watchers.values()):
            forget.append(self.id)
        self._watchers.clear()
        fd, self.fd, self._mapping = self.fd, -1, None
        if fd >= 0:
            os.close(fd)

    def __repr__(self):
        return f"<Region {self.id}: {self.capacity} bytes, {self.refs} references>"


class Holds:
    """The references that one peer holds on this process's regions."""
    __slots__ = ("_held",)

    def __init__(self):
        self._held: dict[int, list] = {}

    def add(self, region):
        region.hold()
        self._held.setdefault(region.id, []).append(region)

    def drop(self, number):
        try:
            region = self._held[number].pop()
        except (KeyError, IndexError):     # all were dropped meanwhile, because the peer is gone
            return
        region.release()

    def drop_all(self):
        for number, regions in list(self._held.items()):
            for _ in range(len(regions)):
                self.drop(number)

    def forget(self, number):
        """The region is closed."""
        self._held.pop(number, None)


class RegionPool:
    """The shared memory that this process owns.

    ``limit_idle``: bytes kept for reuse; beyond it the oldest idle regions of the bulkiest size are closed.
    ``limit_regions``: how many regions may exist (each takes two file descriptors); beyond it ``allocate`` raises
    OSError(EMFILE), and a sender copies through the socket instead.
    """

    def __init__(self, limit_idle=512 << 20, limit_regions=None):
        self.limit_idle = limit_idle
        self.limit_regions = limit_regions or _raise_descriptor_limit() // 8
        self._regions: dict[int, Region] = {}
        self._free: dict[int, deque] = {}
        self._numbers = itertools.count(1)
        _POOLS.add(self)

    def allocate(self, nbytes) -> Region:
        """A region of at least ``nbytes`` with one reference, its contents arbitrary. OSError where none can be had."""
        region = self.allocate_idle(nbytes)
        if region is not None:
            return region
        if len(self._regions) >= self.limit_regions:
            self._trim(0)
            if len(self._regions) >= self.limit_regions:
                raise OSError(errno.EMFILE, f"{self.limit_regions} shared memory regions are in use")
        region = Region(self, next(self._numbers), size_class(nbytes))
        self._regions[region.id] = region
        return region

    def allocate_idle(self, nbytes):
        """The best fitting idle region, or None where none wastes less than a third of itself."""
        capacity = size_class(nbytes)
        largest = max(capacity, int(nbytes * MAX_WASTE))
        while capacity <= largest:
            try:
                region = self._free[capacity].pop()        # the latest freed: its pages are the likeliest in cache
            except (KeyError, IndexError):
                capacity = size_class(capacity + 1)
                continue
            region._idle = False
            return region
        return None

    def close_idle(self):
        """Close every idle region."""
        self._trim(0)

    def stats(self) -> dict:
        """``regions``, ``bytes`` (of all of them) and ``idle`` (bytes that wait for reuse)."""
        regions = list(self._regions.values())
        return {"regions": len(regions), "bytes": sum(r.capacity for r in regions), "idle": self._idle_bytes()}

    def _idle_bytes(self):
        return sum(capacity * len(free) for capacity, free in list(self._free.items()))

    def _give_back(self, region):
        self._free.setdefault(region.capacity, deque()).append(region)
        if self._idle_bytes() > self.limit_idle:
            self._trim(self.limit_idle)

    def _trim(self, limit):
        while self._idle_bytes() > limit:
            bulkiest = max(list(self._free.items()), key=lambda item: item[0] * len(item[1]))[1]
            try:
                bulkiest.popleft()._close()
            except IndexError:             # another thread took it
                pass

    def _forget_all(self):
        # In a forked child the regions belong to the parent: neither reuse nor close them on its behalf.
        self._free, self._regions = {}, {}


def _raise_descriptor_limit() -> int:
    """Raise the soft limit of open files towards the hard one, because every region takes two; returns the limit."""
    if resource is None:
        return 512
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    infinite = resource.RLIM_INFINITY
    wanted = WANTED_DESCRIPTORS if hard == infinite else min(hard, WANTED_DESCRIPTORS)
    if soft != infinite and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
        except (OSError, ValueError):
            pass
    return WANTED_DESCRIPTORS if soft == infinite else soft


_POOLS = weakref.WeakSet()


def _after_fork():
    for pool in list(_POOLS):
        pool._forget_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
