"""Datasets: samples by number."""
from __future__ import annotations

from ...dispatch import Proxy
from .sampler import FilterSampler, Sampler, SequentialSampler


class Dataset:
    """Base of datasets: ``len(dataset)`` samples ``dataset[i]``. A sample of several parts is a tuple."""

    def __getitem__(self, idx):
        raise NotImplementedError(f"{type(self).__name__} does not define __getitem__")

    def __len__(self):
        raise NotImplementedError(f"{type(self).__name__} does not define __len__")

    def filter(self, fn):
        """The samples for which ``fn(sample)`` is true; all are looked at now."""
        return _SampledDataset(self, FilterSampler(fn, self))

    def shard(self, num_shards, index):
        """The index-th of ``num_shards`` contiguous parts, whose lengths differ by at most one."""
        assert num_shards > 0, "Number of shards must be greater than 0"
        assert 0 <= index < num_shards, f"Shard index of out bound: {index} out of {num_shards}"
        each, rest = divmod(len(self), num_shards)
        return _SampledDataset(self, SequentialSampler(each + (index < rest), each * index + min(index, rest)))

    def take(self, count):
        """The first ``count`` samples (None: all)."""
        return _SampledDataset(self, SequentialSampler(len(self) if count is None else min(count, len(self))))

    def sample(self, sampler):
        """The samples that ``sampler`` gives, in its order (drawn now)."""
        if not isinstance(sampler, Sampler):
            raise TypeError(f"Invalid sampler type: {type(sampler)}. Expected gluon.data.Sampler instead.")
        return _SampledDataset(self, sampler)

    def transform(self, fn, lazy=True):
        """Samples after ``fn(*parts)``, each time they are read (``lazy``) or once now."""
        transformed = _LazyTransformDataset(self, fn)
        return transformed if lazy else SimpleDataset([transformed[i] for i in range(len(transformed))])

    def transform_first(self, fn, lazy=True):
        """Samples whose first part went through ``fn``."""
        return self.transform(_First(fn), lazy)

    def __mx_handle__(self):
        """MXNet's loader written in C++ takes this; here it is the dataset itself."""
        return self


class _First:
    """Applies a function to the first part of a sample."""

    def __init__(self, fn):
        self._fn = fn

    def __call__(self, x, *args):
        return (self._fn(x), *args) if args else self._fn(x)


class _LazyTransformDataset(Dataset):
    def __init__(self, data, fn):
        self._data, self._fn = data, fn

    def __len__(self):
        return len(self._data)

    def __getitem__(self, idx):
        item = self._data[idx]
        return self._fn(*item) if isinstance(item, tuple) else self._fn(item)


class _SampledDataset(Dataset):
    def __init__(self, dataset, sampler):
        self._dataset, self._sampler, self._indices = dataset, sampler, list(sampler)

    def __len__(self):
        return len(self._indices)

    def __getitem__(self, idx):
        return self._dataset[self._indices[idx]]


class SimpleDataset(Dataset):
    """A dataset of any list or array."""

    def __init__(self, data):
        self._data = data

    def __len__(self):
        return len(self._data)

    def __getitem__(self, idx):
        return self._data[idx]


class ArrayDataset(Dataset):
    """Samples are tuples of the i-th rows of arrays (or lists, or datasets) of one length; of one array, its rows."""

    def __init__(self, *args):
        assert args, "Needs at least 1 arrays"
        self._length, self._data = len(args[0]), []
        for i, data in enumerate(args):
            assert len(data) == self._length, (
                f"All arrays must have the same length; array[0] has length {self._length} while array[{i}] has "
                f"{len(data)}.")
            if isinstance(data, Proxy) and len(data.shape) == 1:
                data = data.asnumpy()            # labels are read one by one
            self._data.append(data)

    def __len__(self):
        return self._length

    def __getitem__(self, idx):
        return self._data[0][idx] if len(self._data) == 1 else tuple([data[idx] for data in self._data])
