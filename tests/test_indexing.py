"""Indexing against NumPy: values, gradients, assignment, views, errors."""

from __future__ import annotations

import numpy as np
import pytest

from raynd import autograd, nd
from raynd.dispatch import F
from raynd.errors import MXNetError
from raynd.ndarray.array import from_numpy

RNG = np.random.default_rng(0)
H = RNG.standard_normal((3, 4, 5))


def ix(*values):
    return np.array(values)


KEYS = [
    0,
    -1,
    (0, 1),
    (0, 1, 2),
    slice(1, 3),
    (slice(None), 1),
    (..., 1),
    None,
    (None, 0),
    (0, None, 1),
    ...,
    (),
    slice(None, None, -1),
    (slice(None), slice(None, None, 2)),
    (slice(2, 0, -1), ..., slice(None, None, -2)),
    slice(1, 1),
    slice(-2, None),
    slice(0, 100),
    np.int64(1),
    (0, slice(None), 0, None),
    [0, 2],
    ix(0, 2),
    ix(0, -1),
    ix(0, 0, 0),
    (ix(0, 1), ix(1, 2)),
    (ix(0, 1), slice(None), ix(1, 2)),
    (slice(None), ix(0, 1), ix(1, 2)),
    (0, slice(None), ix(1, 2)),
    (0, ix(0, 1)),
    (ix(0, 1), 1),
    (ix(0, 1), None, ix(1, 2)),
    (None, ix(0, 1)),
    (ix(0, 1), None),
    (..., ix(0, 1)),
    (ix(0, 1), ...),
    ix([0, 1], [1, 2]),
    (ix([0], [1]), ix(1, 2)),
    (slice(0, 2), ix(0, 1, 1)),
    [[0, 1], [1, 2]],
    [],
    ix().astype(int),
    (slice(2, 0, -1), ix(0, 1)),
    (slice(1, 1), ix(0, 1)),
    (ix(2, 2), slice(None), slice(0, 5, 2)),
    (ix(0, 1, 2), ix(0, 1, 2), ix(0, 1, 2)),
    np.array(1),
    (np.array(1), np.array(2)),
    (np.int64(1), ix(2, 3)),
    ix(0, 1).astype("uint8"),
    ix(2, 0).astype("int32"),
    range(2),
    True,
    False,
    (True, 0),
    (slice(None), True),
    (True, ix(0, 1)),
    (ix(0, 1), True),
    (np.array(True),),
    (np.array(False), 0),
    [True, False, True],
    ix(True, False, True),
    (slice(None), ix(True, False, True, True)),
    (ix(True, False, True), ix(0, 1)),
    H > 0,
    H[..., 0] > 0,
    (slice(None), H[0] > 0),
    (..., H[0, 0] > 0),
    (H[:, 0, 0] > -9, None),
    (None, ix(True, False, True)),
    (ix(True, False, True), slice(None), ix(0, 1)),
    (H[..., 0] > 0, 1),
    (H[..., 0] > 0, slice(1, 3)),
    H > 100,
]


def on_device(key):
    """The key with its NumPy arrays on the device."""
    if isinstance(key, tuple):
        return tuple(on_device(k) for k in key)
    return from_numpy(key) if isinstance(key, np.ndarray) else key


@pytest.fixture(params=["host", "device"])
def place(request):
    return (lambda key: key) if request.param == "host" else on_device


@pytest.mark.parametrize("key", KEYS, ids=lambda k: repr(k)[:40])
def test_reading(key, place):
    expected = H[key]
    x = from_numpy(H)
    got = x[place(key)]
    assert got.shape == expected.shape and got.dtype == expected.dtype
    np.testing.assert_array_equal(got.asnumpy(), expected)


@pytest.mark.parametrize("key", KEYS, ids=lambda k: repr(k)[:40])
def test_gradient(key, place):
    expected = H[key]
    x, w = from_numpy(H), RNG.standard_normal(expected.shape)
    x.attach_grad()
    with autograd.record():
        y = x[place(key)]
        s = F.sum(y * y * from_numpy(w))
    s.backward()
    places = np.arange(H.size).reshape(H.shape)[key]
    gradient = np.zeros(H.size)
    np.add.at(gradient, places.ravel(), (2 * expected * w).ravel())
    np.testing.assert_allclose(x.grad.asnumpy().ravel(), gradient, atol=1e-12)


@pytest.mark.parametrize("key", KEYS, ids=lambda k: repr(k)[:40])
def test_assignment(key, place):
    shape = H[key].shape
    for value_shape in {(), shape, shape[-1:], (1,) * len(shape)}:
        value = RNG.standard_normal(value_shape)
        expected = H.copy()
        expected[key] = value
        x = from_numpy(H)
        x[place(key)] = from_numpy(value)
        np.testing.assert_array_equal(x.asnumpy(), expected)
    expected = H.copy()
    expected[key] = 2.5
    x = from_numpy(H)
    x[place(key)] = 2.5
    np.testing.assert_array_equal(x.asnumpy(), expected)


@pytest.mark.parametrize(
    "key",
    [
        (0, 0, 0, 0),
        5,
        -4,
        (slice(None), [0, 7]),
        ix(0, 9),
        (ix(0, 1), ix(0, 1, 2)),
        ix(True, False),
        "a",
        1.0,
        (..., ...),
        (H > 0, 0),
        H[0] > 0,
        object(),
        (slice(None), 9),
        [[0, 1], [1]],
    ],
    ids=lambda k: repr(k)[:40],
)
def test_errors(key, place):
    with pytest.raises(IndexError):
        from_numpy(H)[place(key)].asnumpy()
    with pytest.raises(IndexError):
        x = from_numpy(H)
        x[place(key)] = 1.0
        x.asnumpy()


def test_what_is_known_raises_at_the_call_and_the_rest_is_an_error_value():
    x = from_numpy(H)
    with pytest.raises(IndexError, match="index 9 is out of bounds for axis 0 with size 3"):
        x[[0, 9]]
    bad = x[from_numpy(ix(0, 9))]  # the values of the index are on the device
    assert bad.shape == (2, 4, 5)
    with pytest.raises(IndexError, match="out of bounds") as caught:
        bad.asnumpy()
    assert isinstance(caught.value, MXNetError) and "test_indexing.py" in str(caught.value)
    with pytest.raises(ValueError):
        x[0] = from_numpy(np.ones((2, 5)))
    with pytest.raises(ValueError):
        x[[0, 1]] = from_numpy(np.ones((3, 4, 5)))
    mask = from_numpy(H > 0)
    x[mask] = from_numpy(np.ones(3))  # the number of elements is not known here
    with pytest.raises(ValueError):
        x.wait_to_read()


def test_float_indices_are_truncated_as_in_mxnet():
    x = from_numpy(H)
    for key in (from_numpy(np.array([0.0, 2.7])), np.array([0.0, 2.7]), [0.5, 2.0]):
        np.testing.assert_array_equal(x[key].asnumpy(), H[[0, 2]])


def test_index_arrays_of_the_device_are_not_waited_for(monkeypatch):
    from raynd.ndarray.array import NDArray

    x, i = from_numpy(H), from_numpy(ix(0, 2))
    monkeypatch.setattr(NDArray, "asnumpy", lambda self: pytest.fail("a value was read"))
    assert x[i].shape == (2, 4, 5)
    x[i] = 1.0
    x[from_numpy(H > 0)] = 0.0


def test_views_share_memory_and_copies_do_not():
    for key, shares in (
        (0, True),
        (slice(0, 1), True),
        ((0, slice(1, 3)), True),
        (..., True),
        (None, True),
        ((slice(None), 1), False),
        (slice(None, None, 2), False),
        ([0, 1], False),
    ):
        x = from_numpy(H)
        y = x[key]
        y[...] = 7.0
        assert bool((x.asnumpy() == 7).any()) is shares, key
        if shares:
            x[:] = 5.0
            assert (y.asnumpy() == 5).all()


def test_overlapping_assignment():
    for target, source in (
        (slice(None, None, -1), slice(None)),
        (slice(1, None), slice(None, -1)),
        ((slice(None), slice(1, 3)), (slice(None), slice(0, 2))),
        ([2, 0], [0, 1]),
    ):
        expected = H.copy()
        expected[target] = expected[source].copy()
        x = from_numpy(H)
        x[target] = x[source]
        np.testing.assert_array_equal(x.asnumpy(), expected)


def test_values_of_other_types_are_cast():
    x = from_numpy(np.zeros((2, 3), "int32"))
    x[0] = [1.9, 2.9, 3.9]
    x[1, [0, 2]] = np.array([7.5, 8.5])
    np.testing.assert_array_equal(x.asnumpy(), [[1, 2, 3], [7, 0, 8]])


@pytest.mark.parametrize("key", [0, slice(None), slice(1, 3), slice(None, None, 2), [0, 2], "mask"], ids=str)
@pytest.mark.parametrize("value, stored", [(-1, 255), (300, 44), (-2.5, 254)])
def test_numbers_beyond_the_dtype_wrap_around(key, value, stored):
    expected = np.array([1, 2, 3, 4], "uint8")
    x = from_numpy(expected)
    x[x > 2 if key == "mask" else key] = value
    expected[expected > 2 if key == "mask" else key] = stored
    np.testing.assert_array_equal(x.asnumpy(), expected)


def test_constants_beyond_the_dtype_wrap_around():
    x = from_numpy(np.array([1, 2, 3], "uint8"))
    assert F.pad(x, pad_width=((1, 0),), constant_values=-1).tolist() == [255, 1, 2, 3]
    assert F.one_hot(x, depth=2, on_value=300, off_value=-1, dtype="uint8").tolist()[0] == [255, 44]
    assert nd.full((2,), -1, dtype="uint8").asnumpy().tolist() == [255, 255]
    masked = F.sequence_mask(F.reshape(x, newshape=(3, 1)), from_numpy(np.array([1])), use_sequence_length=True,
                             value=-1)
    assert masked.tolist() == [[1], [255], [255]]
    assert x.clip(-1, 2).tolist() == [1, 2, 2] and x.clip(2, 300).tolist() == [2, 2, 3]


def test_recorded_assignment():
    x = from_numpy(H)
    x.attach_grad()
    with autograd.record():
        y = from_numpy(np.zeros(H.shape))
        y[:] = x * 2
        s = F.sum(y * 3)
    s.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), np.full(H.shape, 6.0))
    with autograd.record():
        for key in (0, [0], from_numpy(H > 0)):
            with pytest.raises(MXNetError):
                y = x * 2
                y[key] = 0
            with pytest.raises(MXNetError):
                from_numpy(np.zeros(H.shape))[key] = (x * 2)[key]


def test_zero_size_and_zero_dim():
    e, z = from_numpy(np.zeros((0, 3))), from_numpy(np.array(2.0))
    assert e[[]].shape == (0, 3) and e[:, [0, 2]].shape == (0, 2) and e[e > 0].shape == (0,)
    assert z[()].item() == 2 and z[None].shape == (1,) and z[True].shape == (1,) and z[z > 5].shape == (0,)
    z[()] = 3.0
    assert z.item() == 3
    with pytest.raises(IndexError):
        z[0]


def test_second_order_through_indexing():
    x = from_numpy(H)
    x.attach_grad()
    with autograd.record():
        y = x[[0, 0, 1]]
        g = autograd.grad(F.sum(y * y * y), x, create_graph=True)[0]
        s = F.sum(g * g)
    s.backward()
    counts = np.array([2.0, 1.0, 0.0])[:, None, None]
    np.testing.assert_allclose(x.grad.asnumpy(), 2 * (3 * H * H * counts) * 6 * H * counts, rtol=1e-12)


def test_recorded_assignment_broadcasts_and_casts():
    x = from_numpy(H)
    x.attach_grad()
    with autograd.record():
        y = from_numpy(np.zeros((2, *H.shape), "float32"))
        y[:] = x * 2
        s = F.sum(y * 3)
    s.backward()
    assert y.dtype == "float32"
    np.testing.assert_array_equal(x.grad.asnumpy(), np.full(H.shape, 12.0))
    with autograd.record(), pytest.raises(MXNetError):     # through a view: the base could not know of it
        from_numpy(np.zeros((2, *H.shape)))[0][:] = x * 2


@pytest.mark.parametrize("index", [[0, 10 ** 7], [-1, 2], [3, 0]])
@pytest.mark.parametrize("width", [1, 4])
def test_rows_are_not_added_out_of_bounds(index, width):
    from raynd.ops.indexing import add_rows
    with pytest.raises(IndexError, match="outside 0 to 2"):
        add_rows(np, 3, np.array(index), np.ones((2, width), "float32"))
