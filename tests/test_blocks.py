"""Element-wise operators and normalisations on arrays that are large enough to be computed in blocks and on threads."""
import numpy
import pytest

from raynd import autograd, np, npx
from raynd.ops import batch_norm, blocks, layer_norm, parallel


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


def normalised(x, axes, eps=1e-5):
    x = x.astype("float64")
    return (x - x.mean(axes, keepdims=True)) / numpy.sqrt(x.var(axes, keepdims=True) + eps)


def normalised_gradient(x, dy, axes, eps=1e-5):
    x, dy, y = x.astype("float64"), dy.astype("float64"), normalised(x, axes, eps)
    dx = dy - dy.mean(axes, keepdims=True) - y * (dy * y).mean(axes, keepdims=True)
    return dx / numpy.sqrt(x.var(axes, keepdims=True) + eps)


@pytest.mark.parametrize("axis, shape", [(1, (13, 5, 7)), (1, (23, 6)), (0, (6, 9)), (2, (4, 5, 6))])
@pytest.mark.parametrize("kind", ["batch", "layer"])
def test_normalisation_in_chunks(threads, monkeypatch, kind, axis, shape):
    monkeypatch.setenv("RAYND_KERNELS", "reference")
    monkeypatch.setattr(batch_norm, "_CHUNK_BYTES", 300)
    monkeypatch.setattr(layer_norm, "_CHUNK", 40)
    x, dy = random(shape, 1) + 5, random(shape, 2)
    gamma, beta = random(shape[axis], 3), random(shape[axis], 4)
    others = tuple(i for i in range(len(shape)) if i != axis)
    axes = others if kind == "batch" else axis
    data, *parameters = (np.array(a) for a in (x, gamma, beta))
    for a in (data, *parameters):
        a.attach_grad()
    moving = np.zeros(shape[axis]), np.ones(shape[axis])
    with autograd.record():
        if kind == "batch":
            y = npx.batch_norm(data, *parameters, *moving, fix_gamma=False, axis=axis, eps=1e-5, momentum=0.75)
        else:
            y = npx.layer_norm(data, *parameters, axis=axis, eps=1e-5)
    y.backward(np.array(dy))
    spread = [-1 if i == axis else 1 for i in range(len(shape))]
    scale, shift = gamma.reshape(spread), beta.reshape(spread)
    close = {"rtol": 2e-4, "atol": 2e-5}
    numpy.testing.assert_allclose(y.asnumpy(), normalised(x, axes) * scale + shift, **close)
    dx = normalised_gradient(x, dy * scale if kind == "layer" else dy, axes)
    if kind == "batch":
        dx = dx * scale
        numpy.testing.assert_allclose(moving[0].asnumpy(), x.mean(others) / 4, **close)
        numpy.testing.assert_allclose(moving[1].asnumpy(), 0.75 + x.var(others) / 4, **close)
    numpy.testing.assert_allclose(data.grad.asnumpy(), dx, **close)
    numpy.testing.assert_allclose(parameters[0].grad.asnumpy(), (normalised(x, axes) * dy).sum(others), **close)
    numpy.testing.assert_allclose(parameters[1].grad.asnumpy(), dy.sum(others), **close)
