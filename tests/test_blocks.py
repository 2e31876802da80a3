"""Element-wise operators on arrays that are large enough to be computed in blocks and on threads."""
import numpy
import pytest

from raynd import autograd, np, npx
from raynd.ops import blocks, parallel


@pytest.fixture(params=[1, 3])
def threads(request, monkeypatch):
    monkeypatch.setitem(parallel._state, "threads", request.param)
    return request.param


def random(size, seed=0, dtype="float32", scale=3.0):
    return (numpy.random.default_rng(seed).standard_normal(size) * scale).astype(dtype)


SIZE = 2 * blocks._UFUNC_BLOCK + 77
FUNCTIONS = {
    "ufunc": (np.exp, numpy.exp),
    "function": (npx.softsign, lambda x: x / (1 + abs(x))),
    "scalar": (lambda x: 3 - x * 2, lambda x: 3 - x * 2),
    "comparison": (lambda x: x > 0.5, lambda x: x > 0.5),
    "compared as floats": (lambda x: x.astype("int32") > 0.5, lambda x: x.astype("int32") > 0.5),
    "zero-dim": (lambda x: x * np.array(2.5), lambda x: x * numpy.float32(2.5)),
    "mixed dtypes": (lambda x: x + x.astype("float64"), lambda x: x + x.astype("float64")),
    "integers": (lambda x: np.sqrt(np.abs(x).astype("int32")),
                 lambda x: numpy.sqrt(abs(x).astype("int32").astype("float32"))),
    "two axes": (lambda x: np.tanh(x[:-1].reshape(4, -1)), lambda x: numpy.tanh(x[:-1].reshape(4, -1))),
    "broadcasting": (lambda x: x[:-1].reshape(4, -1) + np.array([[1], [2], [3], [4]]),
                     lambda x: x[:-1].reshape(4, -1) + numpy.array([[1], [2], [3], [4]], "float32")),
    "where": (lambda x: np.where(x > 0, x, x * 2), lambda x: numpy.where(x > 0, x, x * 2)),
    "where, scalars": (lambda x: np.where(x > 0, 1.5, x), lambda x: numpy.where(x > 0, numpy.float32(1.5), x)),
    "where, no bools": (lambda x: np.where(np.floor(x), x, -1), lambda x: numpy.where(numpy.floor(x) != 0, x, -1)),
    "where, 64 bits": (lambda x: np.where(x > 0, x.astype("float64"), x),
                       lambda x: numpy.where(x > 0, x.astype("float64"), x)),
    "where, 16 bits": (lambda x: np.where(x > 0, x.astype("float16"), np.array(-1, dtype="float16")),
                       lambda x: numpy.where(x > 0, x.astype("float16"), numpy.float16(-1))),
    "overflow": (lambda x: np.exp(np.sign(x) * 1000), lambda x: numpy.where(x > 0, numpy.inf, 0)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(threads, name):
    function, reference = FUNCTIONS[name]
    x = random(SIZE)
    result, expected = function(np.array(x)).asnumpy(), reference(x)
    assert result.shape == expected.shape
    if name != "overflow":
        assert result.dtype == expected.dtype
    numpy.testing.assert_allclose(result, expected, rtol=2e-6)


def test_nan_and_signed_zeros_pass_a_selection(threads):
    x = random(SIZE)
    x[::7], x[1::7], x[2::7] = numpy.nan, -0.0, numpy.inf
    result = np.where(np.array(x) > 0, np.array(x), np.array(-x)).asnumpy()
    expected = numpy.where(x > 0, x, -x)
    numpy.testing.assert_array_equal(result.view("int32"), expected.view("int32"))
    zero = np.where(np.array(x) > 0, np.array(x), -0.0).asnumpy()
    assert numpy.signbit(zero[~(x > 0)]).all()


@pytest.mark.parametrize("name", ["sigmoid", "mish", "log_sigmoid", "softsign"])
def test_gradients_are_those_of_small_arrays(threads, name):
    def gradient(data):
        x = np.array(data)
        x.attach_grad()
        with autograd.record():
            y = getattr(npx, name)(x)
        y.backward(np.array(numpy.cos(data)))
        return x.grad.asnumpy()
    data = random(SIZE)
    numpy.testing.assert_allclose(gradient(data)[:100], gradient(data[:100]), rtol=1e-5, atol=1e-7)
    numpy.testing.assert_allclose(gradient(data)[-100:], gradient(data[-100:]), rtol=1e-5, atol=1e-7)
