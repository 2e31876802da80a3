"""Copying large arrays with more than one thread.

One core does not use up the memory's bandwidth, and NumPy releases the GIL while it copies.
"""
from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy

PARALLEL_BYTES = 8 << 20           # below this a second thread costs more than it saves

_helpers: dict = {}


def copy_large(target, source):
    """Copy ``source`` to ``target`` (same shape and dtype; both C-contiguous for the parallel path)."""
    if (source.nbytes < PARALLEL_BYTES or (os.cpu_count() or 1) < 2 or source.shape != target.shape
            or not source.flags.c_contiguous or not target.flags.c_contiguous):
        numpy.copyto(target, source)
        return
    pid = os.getpid()                  # a forked child has no threads of its parent
    if pid not in _helpers:
        _helpers.clear()
        _helpers[pid] = ThreadPoolExecutor(1, thread_name_prefix="raynd-copy")
    source, target = source.reshape(-1), target.reshape(-1)
    half = source.size // 2
    other = _helpers[pid].submit(numpy.copyto, target[half:], source[half:])
    numpy.copyto(target[:half], source[:half])
    other.result()
