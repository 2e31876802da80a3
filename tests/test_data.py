"""Datasets, samplers, batches and the loader."""
from __future__ import annotations

import gc
import threading
import time

import numpy as onp
import pytest

import raynd as mx
from raynd.gluon.data import (
    ArrayDataset,
    BatchSampler,
    DataLoader,
    Dataset,
    FilterSampler,
    IntervalSampler,
    RandomSampler,
    SequentialSampler,
    SimpleDataset,
    batchify,
)


class Squares(Dataset):
    """Samples (i, i * i) with a wait, and a count of those made."""

    def __init__(self, length=20, wait=0.0):
        self.length, self.wait, self.made = length, wait, 0

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        time.sleep(self.wait)
        self.made += 1
        return onp.full((3,), i, "float32"), i * i


def _data_threads():
    return [t for t in threading.enumerate() if t.name.startswith("raynd-data") and t.is_alive()]


def test_samplers():
    assert list(SequentialSampler(4, start=3)) == [3, 4, 5, 6]
    assert sorted(RandomSampler(10)) == list(range(10))
    assert list(IntervalSampler(7, 3)) == [0, 3, 6, 1, 4, 2, 5]
    once = IntervalSampler(7, 3, rollover=False)
    assert list(once) == [0, 3, 6] and len(once) == 3
    assert list(FilterSampler(lambda x: x % 4 == 0, [1, 4, 8, 3])) == [1, 2]


@pytest.mark.parametrize("last, batches, length", [("keep", [[0, 1, 2], [3, 4, 5], [6]], 3),
                                                   ("discard", [[0, 1, 2], [3, 4, 5]], 2)])
def test_batch_sampler(last, batches, length):
    sampler = BatchSampler(SequentialSampler(7), 3, last)
    assert len(sampler) == length
    assert list(sampler) == batches


def test_batch_sampler_rolls_over():
    sampler = BatchSampler(SequentialSampler(7), 3, "rollover")
    assert [len(b) for b in sampler] == [3, 3]
    assert next(iter(sampler)) == [6, 0, 1]
    with pytest.raises(ValueError, match="last_batch"):
        BatchSampler(SequentialSampler(7), 3, "other")


def test_datasets():
    data = SimpleDataset(list(range(10)))
    assert list(data.filter(lambda x: x > 6)) == [7, 8, 9]
    assert [list(data.shard(3, i)) for i in range(3)] == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert list(data.take(2)) == [0, 1] and len(data.take(None)) == len(data.take(99)) == 10
    assert list(data.sample(IntervalSampler(10, 5, rollover=False))) == [0, 5]
    assert list(data.transform(lambda x: x + 1).take(2)) == [1, 2]
    pairs = ArrayDataset([1, 2], [3, 4])
    assert list(pairs.transform(lambda a, b: a * b)) == [3, 8]
    assert list(pairs.transform_first(lambda a: -a, lazy=False)) == [(-1, 3), (-2, 4)]
    with pytest.raises(AssertionError, match="same length"):
        ArrayDataset([1], [2, 3])
    with pytest.raises(AssertionError):
        data.shard(3, 3)
    with pytest.raises(TypeError):
        data.sample([1, 2])


@pytest.mark.parametrize("workers", [0, 3])
def test_loader(workers):
    loader = DataLoader(Squares(), 8, num_workers=workers)
    assert len(loader) == 3
    for _ in range(2):
        seen = list(loader)
        assert [x.shape for x, _ in seen] == [(8, 3), (8, 3), (4, 3)]
        assert onp.concatenate([y.asnumpy() for _, y in seen]).tolist() == [i * i for i in range(20)]
        assert seen[0][0].dtype == "float32" and seen[0][1].dtype == "int64"
    assert isinstance(seen[0][0], mx.np.ndarray)


def test_loader_shuffles_by_numpys_seed():
    orders = []
    for _ in range(2):
        onp.random.seed(3)
        orders.append([int(b.asnumpy()[0]) for b in DataLoader(onp.arange(20), 1, shuffle=True)])
    assert orders[0] == orders[1] != sorted(orders[0])


def test_loader_of_arrays():
    """Rows of whole arrays: of NumPy with their dtype, of device arrays without leaving the device."""
    x, y = onp.random.rand(5, 2), onp.arange(5, dtype="int32")
    (a, b), last = list(DataLoader(ArrayDataset(x, y), 4))
    assert a.dtype == "float64" and b.dtype == "int32" and last[0].shape == (1, 2)
    assert (a.asnumpy() == x[:4]).all() and b.asnumpy().tolist() == [0, 1, 2, 3]
    on_device = mx.np.array(x, device=mx.cpu(1))
    for batch in DataLoader(ArrayDataset(on_device, mx.np.array(y)), 4):
        assert batch[0].device == mx.cpu(1)
    assert DataLoader(on_device, 5)._make([4, 0]).asnumpy().tolist() == x[[4, 0]].astype("float32").tolist()


def test_leaving_a_loop_ends_the_threads():
    data = Squares(1000, wait=0.002)
    for _, y in DataLoader(data, 4, num_workers=3):
        assert y.asnumpy().tolist() == [0, 1, 4, 9]
        break
    gc.collect()
    deadline = time.monotonic() + 5
    while _data_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _data_threads()
    made = data.made
    time.sleep(0.05)
    assert data.made == made < 100


def test_errors_of_workers():
    class Bad(Squares):
        def __getitem__(self, i):
            if i == 9:
                raise KeyError("sample nine")
            return super().__getitem__(i)

    loader = DataLoader(Bad(), 4, num_workers=2)
    got = []
    with pytest.raises(KeyError, match="sample nine"):
        for _, y in loader:
            got.append(y.shape)
    assert got == [(4,), (4,)]
    with pytest.raises(mx.MXNetError, match="timeout"):
        list(DataLoader(Squares(2, wait=0.5), 1, num_workers=1, timeout=0.05))


def test_workers_use_the_loop_s_device():
    class Made(Squares):
        def __getitem__(self, i):
            return mx.np.full((2,), i)

    with mx.cpu(2):
        for batch in DataLoader(Made(4), 2, num_workers=2):
            assert batch.device == mx.cpu(2)
    assert mx.current_device() == mx.cpu(0)


def test_loader_arguments():
    data = Squares(4)
    for bad in ({}, {"batch_size": 2, "shuffle": True, "sampler": RandomSampler(4)}, {"batch_size": 2, "timeout": 0},
                {"batch_size": 2, "batch_sampler": BatchSampler(RandomSampler(4), 2)}, {"batch_size": 0}):
        with pytest.raises(ValueError):
            DataLoader(data, **bad)
    with pytest.raises(TypeError):
        DataLoader(data, 2, no_such_argument=1)
    assert len(list(DataLoader(data, batch_sampler=[[0, 1], [3]]))) == 2
    assert DataLoader(onp.ones((2, 2)), 2, pin_memory=True).__iter__().__next__().device == mx.cpu_pinned(0)


def test_batchify():
    stack = batchify.Stack()([(1, [2.0, 3.0]), (4, [5.0, 6.0])])
    assert stack[0].asnumpy().tolist() == [1, 4] and stack[0].dtype == "int64"
    padded = batchify.Pad(val=-1, round_to=4)([onp.ones((2, 1)), onp.ones((1, 3))])
    assert padded.shape == (2, 4, 4) and padded.asnumpy()[1].sum() == 3 - 13
    a, b = batchify.Group(batchify.Stack(), batchify.Pad())([(1, [1, 2]), (2, [3])])
    assert a.asnumpy().tolist() == [1, 2] and b.asnumpy().tolist() == [[1, 2], [3, 0]]
    parts = batchify.Append()([onp.zeros((2,)), onp.zeros((3,))])
    assert [p.shape for p in parts] == [(1, 2), (1, 3)]
    assert batchify.AsList()((1, "a")) == [1, "a"]
    with pytest.raises(ValueError, match="Pad"):
        batchify.Stack()([onp.ones(2), onp.ones(3)])
    with pytest.raises(TypeError, match="batchify_fn"):
        batchify.Stack()(["a", "b"])
    with pytest.raises(NotImplementedError):
        batchify.Pad()([(1, 2)])
