"""Making arrays with mx.np, dtypes, NumPy modes, and NumPy's own functions on arrays."""
import warnings

import numpy
import pytest

import raynd as mx
from raynd import np, util


@pytest.mark.parametrize("value, dtype", [
    ([1, 2], "float32"), ([True], "float32"), (numpy.array([1, 2]), "float32"), (numpy.array([True]), "float32"),
    (3, "float32"), (numpy.float64(2), "float64"), (numpy.int8(2), "int8"), ([], "float32"), (range(3), "float32"),
])
def test_default_dtypes_of_array(value, dtype):
    """Whatever is not an array of raynd or a NumPy scalar becomes float32."""
    x = np.array(value)
    assert x.dtype == dtype and x.asnumpy().tolist() == numpy.array(value, dtype).tolist()


def test_array_of_arrays():
    """Arrays keep their dtype; lists of arrays are stacked; the source may change afterwards."""
    x = np.array([1, 2], dtype="int32")
    assert np.array(x).dtype == "int32" and np.array(x) is not x and np.asarray(x) is x
    assert np.array([x, x]).shape == (2, 2)
    host = numpy.ones(3)
    y = np.array(host)
    host[:] = 7
    assert y.asnumpy().tolist() == [1, 1, 1]
    with pytest.raises(TypeError):
        np.array([[1, 2], [3]])
    with pytest.raises(TypeError):
        np.array("text")


@pytest.mark.parametrize("make", [
    lambda **k: np.ones((2, 3), **k), lambda **k: np.zeros((2, 3), **k), lambda **k: np.empty((2, 3), **k),
    lambda **k: np.full((2, 3), 7, **k), lambda **k: np.arange(5, **k), lambda **k: np.linspace(0, 1, 5, **k),
    lambda **k: np.logspace(0, 1, 5, **k), lambda **k: np.eye(3, **k), lambda **k: np.identity(3, **k),
    lambda **k: np.tri(3, **k), lambda **k: np.indices((2, 3), **k), lambda **k: np.array([1, 2], **k),
    lambda **k: np.hanning(4, **k), lambda **k: np.ones_like(np.ones(3), **k),
    lambda **k: np.full_like(np.ones(3), 2, **k),
])
def test_devices_and_dtypes(make):
    """device= and its older name ctx=, the current device, and dtype=."""
    assert make(device=mx.cpu(1)).device == make(ctx=mx.cpu(1)).device == mx.cpu(1)
    assert make(dtype="int32").dtype == "int32" and make(dtype=numpy.float64).dtype == "float64"
    assert make().device == mx.cpu(0)


def test_device_in_the_place_of_dtype():
    """np.ones((2, 3), mx.cpu(1)), as the documents write it."""
    assert np.ones((2, 3), mx.cpu(1)).device == mx.cpu(1) and np.ones((2, 3), mx.cpu(1)).dtype == "float32"
    with mx.cpu(2):
        assert np.zeros(2).device == np.array([1]).device == np.arange(2).device == mx.cpu(2)


def test_filled():
    """full takes its dtype from the value; order is always C; sizes are checked."""
    assert [np.full((2,), v).dtype.name for v in (3, 3.0, True)] == ["int64", "float32", "bool"]
    assert np.full((2, 2), np.array([1.0, 2])).asnumpy().tolist() == [[1, 2], [1, 2]]
    assert np.full((2,), 300, dtype="uint8").asnumpy().tolist() == [44, 44]
    with pytest.raises(NotImplementedError):
        np.ones(3, order="F")
    with pytest.raises(ValueError):
        np.ones((-1,))
    with pytest.raises(TypeError):
        np.ones(2.5)


def test_ranges():
    """Against NumPy, with the errors of bad arguments."""
    assert np.arange(0, 1, 0.3).asnumpy().tolist() == numpy.arange(0, 1, 0.3).astype("float32").tolist()
    assert np.arange(5, 1).shape == (0,) and np.arange(5, 1, -2).asnumpy().tolist() == [5, 3]
    values, step = np.linspace(0, 1, 3, endpoint=False, retstep=True)
    assert step == pytest.approx(1 / 3) and values.shape == (3,)
    a = np.linspace(np.array([0.0, 1]), np.array([1.0, 3]), 3, axis=1)
    assert a.asnumpy().tolist() == numpy.linspace([0, 1], [1, 3], 3, axis=1).tolist()
    with pytest.raises(ZeroDivisionError):
        np.arange(1, 10, 0)
    for num in (-1, 2.5):
        with pytest.raises(mx.MXNetError):
            np.linspace(0, 1, num)


def test_meshgrid():
    """Both indexings, dense and sparse."""
    a, b = numpy.arange(2.0), numpy.arange(3.0)
    for options in ({}, {"indexing": "ij"}, {"sparse": True}):
        for x, y in zip(np.meshgrid(np.array(a), np.array(b), **options), numpy.meshgrid(a, b, **options), strict=True):
            assert x.asnumpy().tolist() == y.tolist()
    with pytest.raises(ValueError):
        np.meshgrid(np.array(a), indexing="xx")


def test_types():
    """Constants, limits and promotion of dtypes."""
    assert np.pi == numpy.pi and np.newaxis is None and numpy.signbit(np.NZERO) and not numpy.signbit(np.PZERO)
    assert np.finfo("float16").eps == numpy.finfo("float16").eps and np.iinfo(np.int8).max == 127
    assert np.finfo(np.ones(2)).bits == 32 and np.finfo("bfloat16").bits == 16
    assert np.result_type(np.ones(2, dtype="int32"), np.float16) == "float16"
    assert np.promote_types("int32", "float32") == "float64"
    assert np.can_cast("int8", "int32") and not np.can_cast(np.ones(2), "float16")
    assert np.dtype("bfloat16") == np.bfloat16 and np.dtype("float32") == numpy.float32
    with pytest.raises(ValueError):
        np.result_type(np.ones(2), 1.5)
    with pytest.raises(TypeError):
        np.zeros(2, dtype="float3")


# -- comparisons of whole arrays -----------------------------------------------------------------------------------


def test_whole_arrays():
    """allclose, array_equal and array_equiv give Python bools."""
    x = np.array([1.0, 2, numpy.nan])
    assert np.allclose(x, x, equal_nan=True) is True and np.allclose(x, x) is False
    assert np.array_equal(x, x, equal_nan=True) and not np.array_equal(x, x) and not np.array_equal(x, x[:2])
    assert np.array_equiv(np.ones((2, 2)), np.ones(2)) and not np.array_equiv(np.ones(3), np.ones(2))
    assert np.shape(x) == (3,) and np.ndim(x) == 1 and np.size(x) == 3 and np.shape([[1, 2]]) == (1, 2)
    assert np.shares_memory(x, x[1:]) and not np.shares_memory(x[:1], x[1:]) and not np.shares_memory(x, x.copy())


def test_choices():
    """where, clip and nan_to_num with arrays and numbers in all places."""
    x = np.array([0.5, 2, -1])
    assert np.where(x > 0, x, 0.0).asnumpy().tolist() == [0.5, 2, 0]
    assert np.where(x > 0, 1, 0).dtype == "float32"
    assert np.clip(x, 0, None).asnumpy().tolist() == [0.5, 2, 0] == x.clip(0).asnumpy().tolist()
    assert np.clip(x, np.array([1.0, 0, 0]), 1.5).asnumpy().tolist() == [1, 1.5, 0]
    with pytest.raises(ValueError):
        np.clip(x, None, None)
    y = np.array([numpy.nan, numpy.inf, 1])
    assert np.nan_to_num(y, nan=5, posinf=6).asnumpy().tolist() == [5, 6, 1]
    assert np.nan_to_num(y, copy=False) is y and y.asnumpy()[0] == 0


def test_python_operators():
    """The operators of Python, with their reflected and in-place forms."""
    a, b = numpy.array([7, -7, 5]), numpy.array([2, 3, -3])
    x, y = np.array(a, dtype="int64"), np.array(b, dtype="int64")
    for f in (lambda u, v: u % v, lambda u, v: u // v, lambda u, v: divmod(u, v)[1], lambda u, v: u & v,
              lambda u, v: u | v, lambda u, v: u ^ v, lambda u, v: ~u, lambda u, v: u << abs(v),
              lambda u, v: u >> abs(v),
              lambda u, v: 7 % v, lambda u, v: 7 // v, lambda u, v: 7 & v, lambda u, v: 7 << abs(v), lambda u, v: -u,
              lambda u, v: u ** abs(v), lambda u, v: 2 ** abs(v), lambda u, v: u == v, lambda u, v: u != 5):
        assert f(x, y).asnumpy().tolist() == f(a, b).tolist()
    for name in ("__iadd__", "__isub__", "__imul__", "__ifloordiv__", "__imod__", "__iand__", "__ior__", "__ixor__"):
        target, host = x.copy(), a.copy()
        assert getattr(target, name)(y) is target
        assert target.asnumpy().tolist() == getattr(host, name)(b).tolist()
    assert round(np.array([1.26]), 1).asnumpy()[0] == pytest.approx(1.3)
    with pytest.raises(TypeError):
        x + [1, 2]
    with pytest.raises(TypeError):
        pow(x, 2, 3)


# -- NumPy's functions ---------------------------------------------------------------------------------------------


def test_numpy_functions():
    """NumPy's ufuncs and functions on arrays run on the device where mx.np has them, else on the host."""
    x = np.array([1.0, 2, 3])
    assert isinstance(numpy.exp(x), np.ndarray) and isinstance(numpy.ones(3) + x, np.ndarray)
    assert (numpy.float64(2) * x).asnumpy().tolist() == [2, 4, 6]
    host = numpy.ones(3)
    host += x
    assert isinstance(host, numpy.ndarray) and host.tolist() == [2, 3, 4]
    out = np.zeros(3)
    assert numpy.add(x, x, out=out) is out and out.asnumpy().tolist() == [2, 4, 6]
    assert isinstance(numpy.multiply.outer(x, x), np.ndarray)
    assert numpy.asarray(x).tolist() == [1, 2, 3]
    assert float(numpy.cov(x)) == pytest.approx(1.0)
    x.attach_grad()
    with mx.autograd.record():
        with pytest.raises(mx.MXNetError, match="host"):
            numpy.spacing(x)


# -- modes ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def restored():
    """NumPy mode again after the test."""
    yield
    util.set_np()


def test_modes(restored):
    """set_np, reset_np, scopes and decorators."""
    assert util.is_np_shape() and util.is_np_array() and not util.is_np_default_dtype()
    util.reset_np()
    assert not util.is_np_shape() and not util.is_np_array()
    with util.np_shape(), util.np_array():
        assert util.is_np_shape() and util.is_np_array()
        with util.np_shape(False):
            assert not util.is_np_shape()
        assert util.set_np_shape(False) is True and not util.is_np_shape()
    assert not util.is_np_shape()

    @util.use_np
    def inside():
        return util.is_np_shape(), util.is_np_array()

    @util.use_np
    class Inside:
        def method(self):
            return util.is_np_shape(), util.is_np_array()

        @property
        def value(self):
            return util.is_np_array()
    assert inside() == Inside().method() == (True, True) and Inside().value
    assert inside.__name__ == "inside" and isinstance(Inside(), Inside)
    with pytest.raises(ValueError):
        util.set_np(shape=False, array=True)
    with util.np_default_dtype():
        assert np.ones(2).dtype == "float64"
    assert np.ones(2).dtype == "float32"

    @util.use_np_default_dtype
    def wide():
        return np.ones(2).dtype
    assert wide() == "float64" and not util.is_np_default_dtype()


def test_helpers(monkeypatch):
    """The small helpers of mx.util."""
    assert util.dtype_from_number(1) == numpy.int64 and util.dtype_from_number(1.0) == numpy.float32
    assert util.dtype_from_number(True) == numpy.bool_
    util.setenv("RAYND_TEST_VARIABLE", 3)
    assert util.getenv("RAYND_TEST_VARIABLE") == "3"
    util.setenv("RAYND_TEST_VARIABLE", None)
    assert util.getenv("RAYND_TEST_VARIABLE") is None
    assert type(util.default_array([1])) is np.ndarray
    assert util.np_ufunc_legal_option("where", False) and not util.np_ufunc_legal_option("casting", "mxnet")


def test_no_warnings_from_kernels():
    """Division by zero and overflow are values, not warnings, and the user's settings stay."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (np.array([1.0, 0, -1]) / 0).asnumpy().tolist()[::2] == [numpy.inf, -numpy.inf]
        np.exp(np.array([1e6])).wait_to_read()
    with pytest.warns(RuntimeWarning):
        numpy.array([1.0]) / numpy.array([0.0])
