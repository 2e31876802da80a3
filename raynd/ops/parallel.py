"""Splitting a kernel's work among threads.

NumPy and BLAS release the interpreter lock while they compute, so chunks of a batch run in parallel on Python threads,
each with a BLAS of one thread. For many small products this beats a BLAS with several threads, which meet at every
product and spin in between.
"""
from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy

_state: dict = {"threads": None, "pool": None, "size": 0, "blas": None}
_lock = threading.Lock()


def set_threads(count):
    """Let kernels use ``count`` threads; None: as many as BLAS uses."""
    _state["threads"] = count


def _blas():
    """The loaded BLAS libraries, found once."""
    if _state["blas"] is None:
        import threadpoolctl
        found = threadpoolctl.ThreadpoolController().select(user_api="blas")
        _state["blas"] = list(found.lib_controllers)
    return _state["blas"]


def threads() -> int:
    """How many threads a kernel may use."""
    if _state["threads"] is not None:
        return _state["threads"]
    return max((library.num_threads for library in _blas()), default=1)


def _pool(size):
    if _state["size"] < size:
        if _state["pool"] is not None:
            _state["pool"].shutdown(wait=False)
        # floating-point errors are values, as in the device's own thread
        _state["pool"] = ThreadPoolExecutor(size, "raynd-kernel", lambda: numpy.seterr(all="ignore"))
        _state["size"] = size
    return _state["pool"]


def run_chunks(xp, chunks, worker):
    """Call ``worker()`` once a thread for a function of a chunk (so that each has its own buffers) and apply it to all
    ``chunks``. Returns the functions, in the order of the threads."""
    count = min(threads(), len(chunks)) if xp.__name__ == "numpy" else 1
    if count > 1 and _lock.acquire(blocking=False):
        try:
            return _in_threads(chunks, worker, count)
        finally:
            _lock.release()
    function = worker()
    for chunk in chunks:
        function(*chunk)
    return [function]


def map_chunks(xp, function, *sequences):
    """The results of ``function`` for the elements of the sequences, in order, computed on threads."""
    calls = list(zip(*sequences))
    results = [None] * len(calls)

    def run(i, arguments):
        results[i] = function(*arguments)
    run_chunks(xp, list(enumerate(calls)), lambda: run)
    return results


def _in_threads(chunks, worker, count):
    libraries = _blas()
    before = [library.num_threads for library in libraries]
    functions = [worker() for _ in range(count)]

    def work(k):
        for chunk in chunks[k::count]:
            functions[k](*chunk)
    for library in libraries:
        library.set_num_threads(1)
    try:
        tasks = [_pool(count - 1).submit(work, k) for k in range(1, count)]
        try:
            work(0)
        finally:
            for task in tasks:
                task.result()
    finally:
        for library, n in zip(libraries, before):
            library.set_num_threads(n)
    return functions
