"""Batches of a dataset, made by threads ahead of their use."""
from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor, TimeoutError as FutureTimeout

import numpy

from ...device import Device, current_device
from ...dispatch import Proxy
from ...errors import ArgumentError, MXNetError, ShapeError
from .batchify import Stack, rows
from .dataset import ArrayDataset, SimpleDataset
from .sampler import BatchSampler, RandomSampler, SequentialSampler


def default_batchify_fn(data):
    """Stack samples into arrays (see ``batchify.Stack``)."""
    return Stack()(data)


default_mp_batchify_fn = default_batchify_fn


class DataLoader:
    """Iterates over batches of ``dataset``.

    ``batch_size`` with ``shuffle`` or a ``sampler``, and ``last_batch`` ('keep', 'discard' or 'rollover'), or in place
    of all four a ``batch_sampler``. ``batchify_fn`` makes a batch of a list of samples (by default they are stacked).
    ``num_workers`` threads prepare up to ``prefetch`` batches (twice the workers by default) ahead; 0 prepares each
    when it is asked for. Threads, not processes, whatever ``thread_pool``: NumPy releases the interpreter's lock in its
    loops. A batch that takes longer than ``timeout`` seconds raises. Batches stay on the host until an operator or a
    copy to a device needs them, so ``pin_memory`` changes only the device they name, cpu_pinned(``pin_device_id``).
    ``try_nopython`` chooses MXNet's C++ loader; there is one loader here, and True raises for a dataset it cannot take.
    """

    def __init__(self, dataset, batch_size=None, shuffle=False, sampler=None, last_batch=None, batch_sampler=None,
                 batchify_fn=None, num_workers=0, pin_memory=False, pin_device_id=0, prefetch=None, thread_pool=False,
                 timeout=120, try_nopython=None):
        if timeout <= 0:
            raise ShapeError(f"timeout must be positive, not {timeout}")
        if batch_sampler is None:
            if batch_size is None:
                raise ShapeError("batch_size must be specified unless batch_sampler is specified")
            if sampler is None:
                sampler = RandomSampler(len(dataset)) if shuffle else SequentialSampler(len(dataset))
            elif shuffle:
                raise ShapeError("shuffle must not be specified if sampler is specified")
            batch_sampler = BatchSampler(sampler, batch_size, last_batch or "keep")
        elif batch_size is not None or shuffle or sampler is not None or last_batch is not None:
            raise ShapeError("batch_size, shuffle, sampler and last_batch must not be specified if batch_sampler is "
                             "specified.")
        if try_nopython and not hasattr(dataset, "__mx_handle__"):
            raise ArgumentError(f"try_nopython=True needs a gluon.data.Dataset, not {type(dataset).__name__}")
        self._dataset, self._batch_sampler, self._timeout = dataset, batch_sampler, timeout
        self._num_workers = max(0, num_workers)
        self._prefetch = max(0, 2 * self._num_workers if prefetch is None else prefetch)
        self._batchify_fn = batchify_fn
        self._device = Device("cpu_pinned", pin_device_id) if pin_memory else None

    def __len__(self):
        return len(self._batch_sampler)

    def _make(self, indices):
        """The batch of these samples."""
        indices = list(indices)
        data = self._dataset
        if self._batchify_fn is None:
            arrays = _plain_arrays(data)
            if arrays is not None:               # whole rows at once
                made = [rows(x, indices) for x in arrays]
                return made if len(made) > 1 else made[0]
        return (self._batchify_fn or default_batchify_fn)([data[i] for i in indices])

    def _on(self, device, indices):
        with device:
            return self._make(indices)

    def __iter__(self):
        device = self._device or current_device()
        if self._num_workers == 0:
            return (self._on(device, indices) for indices in self._batch_sampler)
        return self._ahead(device)

    def _ahead(self, device):
        """Batches in order, made by threads. Leaving the loop early drops what is waiting and ends the threads."""
        pool = ThreadPoolExecutor(self._num_workers, thread_name_prefix="raynd-data")
        waiting = deque()
        try:
            for indices in self._batch_sampler:
                waiting.append(pool.submit(self._on, device, indices))
                if len(waiting) > self._prefetch:
                    yield self._result(waiting.popleft())
            while waiting:
                yield self._result(waiting.popleft())
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _result(self, future):
        try:
            return future.result(self._timeout)
        except FutureTimeout:
            if future.done():                    # the sample's own code raised it
                raise
            raise MXNetError(f"a worker of the DataLoader took longer than timeout={self._timeout} seconds for a "
                             "batch; raise timeout, or use more workers") from None


def _plain_arrays(dataset):
    """The arrays behind a dataset whose samples are simply their rows, else None."""
    if type(dataset) is ArrayDataset:
        arrays = dataset._data
    elif type(dataset) is SimpleDataset:
        arrays = [dataset._data]
    else:
        arrays = [dataset]
    plain = all(isinstance(x, Proxy) and len(x.shape) > 0 or isinstance(x, numpy.ndarray) and x.ndim > 0
                and x.dtype.kind in "biufc" for x in arrays)
    return arrays if plain else None
