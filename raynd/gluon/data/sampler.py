"""Orders in which samples are visited. Shuffling draws from NumPy's global generator, as in MXNet: seed that."""
from __future__ import annotations

import numpy

from ...errors import ShapeError


class Sampler:
    """Base of samplers: iterable over indices, with a length."""

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")

    def __len__(self):
        raise NotImplementedError(f"{type(self).__name__} does not define __len__")


class SequentialSampler(Sampler):
    """start, start + 1, ... ``length`` of them."""

    def __init__(self, length, start=0):
        self._length, self._start = length, start

    def __iter__(self):
        return iter(range(self._start, self._start + self._length))

    def __len__(self):
        return self._length


class RandomSampler(Sampler):
    """0 to length - 1 in random order, a new one each time."""

    def __init__(self, length):
        self._length = length

    def __iter__(self):
        return iter(numpy.random.permutation(self._length))

    def __len__(self):
        return self._length


class FilterSampler(Sampler):
    """The indices of the samples for which ``fn(sample)`` is true."""

    def __init__(self, fn, dataset):
        self._fn, self._dataset = fn, dataset
        self._indices = [i for i in range(len(dataset)) if fn(dataset[i])]

    def __iter__(self):
        return iter(self._indices)

    def __len__(self):
        return len(self._indices)


class IntervalSampler(Sampler):
    """0, interval, 2 interval, ...; with ``rollover`` then again from 1, from 2, and so on."""

    def __init__(self, length, interval, rollover=True):
        assert interval <= length, f"Interval {interval} must be smaller than or equal to length {length}"
        self._length, self._interval, self._rollover = length, interval, rollover

    def __iter__(self):
        for start in range(self._interval if self._rollover else 1):
            yield from range(start, self._length, self._interval)

    def __len__(self):
        return self._length if self._rollover else -(-self._length // self._interval)


class BatchSampler(Sampler):
    """Lists of ``batch_size`` indices. What is left at the end: 'keep' gives it as a short batch, 'discard' drops it,
    'rollover' puts it before the next round."""

    def __init__(self, sampler, batch_size, last_batch="keep"):
        if last_batch not in ("keep", "discard", "rollover"):
            raise ShapeError(f"last_batch must be one of 'keep', 'discard', or 'rollover', but got {last_batch}")
        if batch_size < 1:
            raise ShapeError(f"batch_size must be at least 1, not {batch_size}")
        self._sampler, self._batch_size, self._last_batch, self._prev = sampler, batch_size, last_batch, []

    def __iter__(self):
        batch, self._prev = self._prev, []
        for i in self._sampler:
            batch.append(i)
            if len(batch) == self._batch_size:
                yield batch
                batch = []
        if batch and self._last_batch == "keep":
            yield batch
        elif batch and self._last_batch == "rollover":
            self._prev = batch

    def __len__(self):
        total = len(self._sampler) + (len(self._prev) if self._last_batch == "rollover" else 0)
        return -(-total // self._batch_size) if self._last_batch == "keep" else total // self._batch_size
