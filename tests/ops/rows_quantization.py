"""Rows of the quantized operators, against their formulas in float64 and whole-number sums in int64."""
import itertools

import numpy as np
import table
from table import ints, normal, row, uniform

LIMITS = {"int8": 127.5, "uint8": 255.5}


def single(x):
    """An input with its floats in float32, the only type of floats that these operators take."""
    if callable(x):
        return lambda rng: single(np.asarray(x(rng)))
    return x.astype("float32") if isinstance(x, np.ndarray) and x.dtype == "float64" else x


def S(*inputs, **attrs):
    return table.S(*map(single, inputs), **attrs)


def int8(*shape):
    return ints(*shape, low=-128, high=128, dtype="int8")


def uint8(*shape):
    return ints(*shape, low=0, high=256, dtype="uint8")


def span(low, high):
    """The two arrays of a range."""
    return np.array([low], "float64"), np.array([high], "float64")


def largest(low, high):
    return float(np.max(np.abs([np.ravel(low), np.ravel(high)])))


def stop(x, dtype):
    """Rounded (halves to even) and cut off at the ends of the dtype."""
    return np.clip(np.rint(x), np.iinfo(dtype).min, np.iinfo(dtype).max)


def ends(low, high):
    return np.reshape(low, 1), np.reshape(high, 1)


# -- quantize, dequantize, requantize ------------------------------------------------------------------------------


def _quantize(x, low, high, out_type="uint8"):
    real = largest(low, high)
    return (stop(x * (127 if out_type == "int8" else 255) / real, out_type),
            *(ends(-real, real) if out_type == "int8" else ends(low, high)))


A, B, C = span(-2, 3), span(0, 1.5), span(-40, 10)
row("quantize", ref=_quantize, dtypes="float32", samples=[
    S(normal(3, 4), *A), S(normal(3, 4), *A, out_type="int8"), S(normal(), *C), S(normal(0, 2), *A, out_type="int8")])


def _quantize_v2(x, out_type="int8", min_calib_range=None, max_calib_range=None):
    calibrated = min_calib_range is not None
    if x.dtype != "float64":
        top = LIMITS[x.dtype.name]
        return x, *(ends(min_calib_range, max_calib_range) if calibrated else
                    ends(-top if x.dtype == "int8" else 0, top))
    if out_type == "auto":
        out_type = "uint8" if calibrated and min_calib_range >= 0 else "int8"
    low, high = (min_calib_range, max_calib_range) if calibrated else (x.min(), x.max()) if x.size else (0, 0)
    real = largest(low, high)
    q = stop(x * LIMITS[out_type] / real, out_type) if real else x * 0
    return q, *(ends(-real, real) if out_type == "int8" else ends(low, high))


CALIBRATIONS = ({}, {"min_calib_range": -1.5, "max_calib_range": 0.5}, {"min_calib_range": 0.0, "max_calib_range": 2.0})
TYPES = ("int8", "uint8", "auto")
row("quantize_v2", ref=_quantize_v2, dtypes="float32", samples=[
    *[S(normal(2, 3, 4), out_type=t, **c) for t in TYPES for c in CALIBRATIONS], S(normal()), S(normal(0, 3)),
    S(np.zeros((2, 3))), S(int8(2, 3)), S(uint8(2, 3), out_type="auto", min_calib_range=0.0, max_calib_range=2.0),
    S(uint8(4), out_type="uint8")])
row("dequantize", ref=lambda q, low, high: q * largest(low, high) / LIMITS[q.dtype.name], dtypes="float32", samples=[
    S(int8(3, 4), *A), S(uint8(3, 4), *C), S(int8(), *A), S(uint8(0, 2), *A)])


def _requantize(x, low, high, out_type="int8", min_calib_range=None, max_calib_range=None):
    unit = largest(low, high) / 2 ** 31
    if out_type == "auto":
        out_type = "uint8" if min_calib_range is not None and min_calib_range >= 0 else "int8"
    if min_calib_range is not None:
        real = largest(min_calib_range, max_calib_range)
    else:
        real = np.abs(x.astype("float64")).max() * unit if x.size else 0.0
    q = stop(x * unit * (127 if out_type == "int8" else 255) / real, out_type) if real else x * 0
    return q, *ends(-real if out_type == "int8" else 0, real)


WIDE = span(-1e6, 2e6)
row("requantize", ref=_requantize, dtypes="float32", samples=[
    *[S(ints(3, 4, low=-2000, high=3000, dtype="int32"), *WIDE, out_type=t, **c) for t in TYPES for c in CALIBRATIONS],
    S(ints(dtype="int32", low=5), *A), S(ints(0, 2, dtype="int32"), *A), S(np.zeros(3, "int32"), *A),
    S(np.array([-2 ** 31, 0, 2 ** 31 - 1], "int32"), *A)])

# -- calibration ---------------------------------------------------------------------------------------------------


def _smooth(x, eps=1e-4):
    zero = x == 0
    if zero.all():
        return None
    taken = eps * zero.sum() / (~zero).sum()
    return None if taken >= 1 else np.where(zero, eps, x - taken)


def _calibrate(hist, edges, num_quantized_bins=255):
    middle, best = len(hist) // 2, np.finfo("float32").max
    threshold = edges[middle + num_quantized_bins // 2 + 1]
    for r in range(num_quantized_bins // 2, middle + 1):
        first, last = middle - r, middle + r
        p = hist[first:last + 1].copy()
        p[0], p[-1] = hist[:first + 1].sum(), hist[last:].sum()
        part = hist[first:last + 1].copy()
        part[0] = 0
        q, width = np.zeros(len(part)), len(part) // num_quantized_bins
        for j in range(num_quantized_bins):
            where = slice(j * width, (j + 1) * width if j < num_quantized_bins - 1 else None)
            if part[where].any():
                q[where] = part[where].sum() / np.count_nonzero(part[where])
        q[p == 0] = 0
        p, q = _smooth(p), _smooth(q)
        if p is None or q is None:
            continue
        p, q = p / p.sum(), q / q.sum()
        divergence = (p * np.log(p / q)).sum()
        if divergence < best:
            best, threshold = divergence, edges[last + 1]
    return ends(threshold, best)


def histogram(bins, empty=0):
    """Counts of a bell, of which the outer ``empty`` bins on each side have none."""
    def draw(rng):
        x = rng.poisson(1 + 40 * np.exp(-np.linspace(-3, 3, bins) ** 2)).astype("float64")
        x[:empty] = x[bins - empty:] = 0
        return x
    return draw


row("calibrate_entropy", ref=_calibrate, dtypes="float32", samples=[
    *[S(histogram(41, e), np.linspace(-4, 4, 42), num_quantized_bins=n) for e in (0, 9) for n in (2, 5, 8, 41)],
    S(histogram(701, 60), np.linspace(-4, 4, 702)), S(np.zeros(9), np.linspace(-1, 1, 10), num_quantized_bins=3),
    S(np.eye(1, 99, 98)[0] * 1000, np.linspace(-2, 2, 100), num_quantized_bins=5)])

# -- the same numbers in another order -----------------------------------------------------------------------------

row("quantized_act", ref=lambda q, low, high, act_type: (np.maximum(q, 0), low, high), dtypes="float32", samples=[
    S(int8(3, 4), *A, act_type="relu"), S(uint8(5), *C, act_type="relu"), S(int8(), *A, act_type="relu"),
    S(int8(0, 2), *A, act_type="relu")])
row("quantized_flatten", ref=lambda q, low, high: (q.reshape(len(q), int(np.prod(q.shape[1:]))), low, high),
    dtypes="float32", samples=[S(int8(3, 4, 2), *A), S(uint8(5), *C), S(ints(2, 3, dtype="int32"), *A),
                               S(int8(0, 2, 3), *A)])
row("quantized_reshape", ref=lambda q, low, high, newshape, reverse=False: (
    q.reshape({(-2, -1): (2, 12), (-1, -2): (6, 4), (-1, 4): (0, 4)}.get(newshape, newshape)), low, high),
    dtypes="float32", samples=[
        S(int8(2, 3, 4), *A, newshape=(-2, -1)), S(uint8(2, 3, 4), *A, newshape=(4, 6)),
        S(int8(2, 3, 4), *A, newshape=(-1, -2), reverse=True), S(int8(1), *A, newshape=()),
        S(int8(0, 2), *A, newshape=(-1, 4))])
row("quantized_transpose", ref=lambda q, low, high, axes=None: (q.transpose(axes or None), low, high), dtypes="float32",
    samples=[S(int8(2, 3, 4), *A), S(uint8(2, 3, 4), *A, axes=(1, -1, 0)), S(int8(), *A, axes=()), S(int8(0, 2), *A),
             S(int8(5), *A, axes=0)])
row("quantized_embedding", ref=lambda i, w, low, high, input_dim, output_dim:
    (w[np.clip(i.astype(int), 0, len(w) - 1)], low, high), dtypes="float32", samples=[
        S(ints(2, 3, low=-2, high=9), int8(5, 4), *A, input_dim=5, output_dim=4),
        S(uniform(4, low=0, high=5), int8(5, 4), *A, input_dim=5, output_dim=4),
        S(ints(), int8(5, 4), *A, input_dim=5, output_dim=4), S(ints(0), int8(5, 4), *A, input_dim=5, output_dim=4)])

# -- joining, adding, multiplying ----------------------------------------------------------------------------------


def _concat(*data, dim=1, num_args=None):
    n = len(data) // 3
    low, high = min(0, *(x.item() for x in data[n::2])), max(0, *(x.item() for x in data[n + 1::2]))
    dtype = "int8" if any(x.dtype == "int8" for x in data[:n]) else "uint8"
    parts = [stop(x * (LIMITS[dtype] / largest(low, high) * largest(*data[n + 2 * i:n + 2 * i + 2])
                       / LIMITS[x.dtype.name]), dtype) for i, x in enumerate(data[:n])]
    return np.concatenate(parts, 0 if dim is None else dim), *ends(low, high)


row("quantized_concat", ref=_concat, dtypes="float32", samples=[
    S(int8(2, 3), int8(2, 4), *A, *C), S(uint8(2, 3), uint8(1, 3), *A, *B, dim=0),
    S(int8(2, 3), uint8(2, 3), uint8(2, 1), *B, *A, *span(1, 2), dim=-1), S(uint8(3), int8(2), *A, *B, dim=None),
    S(int8(2, 2), *A, num_args=1), S(int8(0, 2), int8(0, 3), *A, *C)])


def _real_pair(lhs, rhs, *ranges):
    """The two arrays, as the numbers that they stand for."""
    return [q * largest(*ends_) / LIMITS[q.dtype.name] for q, ends_ in ((lhs, ranges[:2]), (rhs, ranges[2:]))]


def _check_sum(inputs, outputs, attrs):
    q, low, high = outputs
    a, b = _real_pair(*inputs)
    if attrs:
        dtype = inputs[0].dtype if inputs[0].dtype == inputs[1].dtype else np.dtype("int8")
        unit = LIMITS[dtype.name] / largest(attrs["min_calib_range"], attrs["max_calib_range"])
        a, b = a * unit, b * unit
        if inputs[0].dtype != inputs[1].dtype:
            a, b = (np.rint(a), b) if inputs[0].dtype == "uint8" else (a, np.rint(b))
        assert q.dtype == dtype
        np.testing.assert_array_equal(q, stop(a + b, dtype))
    else:
        real = largest(*inputs[2:4]) + largest(*inputs[4:])
        assert q.dtype == "int32" and -low == high
        np.testing.assert_allclose(high, real, rtol=1e-6)
        np.testing.assert_allclose(q * real / 2.0 ** 31, np.clip(a + b, -real, real), atol=1e-6 * real)


PAIRS = [(x, y) for x in (int8, uint8) for y in (int8, uint8)]
row("quantized_elemwise_add", check=_check_sum, dtypes="float32", samples=[
    *[S(x(3, 4), y(3, 4), *A, *B, **c) for x, y in PAIRS
      for c in ({}, {"min_calib_range": -2.0, "max_calib_range": 4.0})],
    S(np.full(3, -128, "int8"), np.full(3, -128, "int8"), *A, *C), S(int8(), uint8(), *A, *B),
    S(int8(0), int8(0), *A, *B)])


def _mul(lhs, rhs, *ranges, min_calib_range=None, max_calib_range=None, enable_float_output=False):
    a, b = _real_pair(lhs, rhs, *ranges)
    if enable_float_output:
        return a * b
    if min_calib_range is None:
        real = largest(*ranges[:2]) / 127 * largest(*ranges[2:]) / 127 * 2.0 ** 31
        return lhs.astype("int32") * rhs, *ends(-real, real)
    unit = 127.5 / largest(min_calib_range, max_calib_range)
    return stop(np.trunc(a * b * unit), "int8"), *ends(min_calib_range, max_calib_range)


row("quantized_elemwise_mul", ref=_mul, dtypes="float32", samples=[
    *[S(int8(3, 4), int8(3, 4), *A, *B, **c) for c in (
        {}, {"min_calib_range": -2.0, "max_calib_range": 3.0}, {"enable_float_output": True},
        {"min_calib_range": -9.0, "max_calib_range": 2.0})],
    S(int8(), int8(), *A, *B), S(int8(0, 2), int8(0, 2), *A, *B, enable_float_output=True)])

# -- layers --------------------------------------------------------------------------------------------------------


def _finished(total, data, bias, ranges, shape):
    """Whole sums with the bias, and their range."""
    a, b = largest(*ranges[:2]), largest(*ranges[2:4])
    if bias is not None:
        unit = np.float32(LIMITS[data.dtype.name]) / np.float32(a) * (np.float32(127.5) / np.float32(b))
        total = total + np.trunc(bias * (unit * np.float32(largest(*ranges[4:])) / np.float32(127.5))).reshape(shape)
    real = a * b / 127 / (127 if data.dtype == "int8" else 255) * 2.0 ** 31
    return total, *ends(-real, real)


def _split(given):
    given = [x for x in given if x is not None]
    return (given[0], given[1:]) if len(given) == 7 else (None, given)


def _dense(data, weight, *given, num_hidden, no_bias=False, flatten=True):
    bias, ranges = _split(given)
    x = data.reshape(len(data), int(np.prod(data.shape[1:]))) if flatten else data
    return _finished(x.astype("int64") @ weight.T.astype("int64"), data, bias, ranges, (-1,))


row("quantized_fully_connected", ref=_dense, dtypes="float32", samples=[
    S(int8(3, 5), int8(4, 5), int8(4), *A, *B, *C, num_hidden=4),
    S(uint8(3, 2, 5), int8(4, 10), int8(4), *A, *B, *C, num_hidden=4),
    S(int8(2, 3, 5), int8(4, 5), int8(4), *A, *B, *C, num_hidden=4, flatten=False),
    S(uint8(3, 5), int8(4, 5), None, *A, *B, num_hidden=4, no_bias=True),
    S(int8(3, 5), int8(4, 5), *A, *B, num_hidden=4, no_bias=True),
    S(int8(2, 2500), int8(3, 2500), None, *A, *B, None, None, num_hidden=3, no_bias=True),
    S(np.full((1, 3000), 255, "uint8"), np.full((1, 3000), -128, "int8"), *A, *B, num_hidden=1, no_bias=True),
    S(int8(3, 0), int8(4, 0), int8(4), *A, *B, *C, num_hidden=4),
    S(int8(0, 5), int8(4, 5), int8(4), *A, *B, *C, num_hidden=4)])


def _conv(data, weight, *given, kernel, num_filter, stride=(), dilate=(), pad=(), num_group=1, no_bias=False,
          layout=None):
    bias, ranges = _split(given)
    n = len(kernel)
    last = layout is not None and layout[-1] == "C"
    x, w = (np.moveaxis(a, -1, 1).astype("int64") if last else a.astype("int64") for a in (data, weight))
    stride, dilate, pad = stride or (1,) * n, dilate or (1,) * n, pad or (0,) * n
    x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in pad]])
    out = [(s - d * (k - 1) - 1) // t + 1 for s, d, k, t in zip(x.shape[2:], dilate, kernel, stride)]
    x = x.reshape(len(x), num_group, x.shape[1] // num_group, *x.shape[2:])
    w = w.reshape(num_group, num_filter // num_group, *w.shape[1:])
    total = np.zeros((len(x), num_group, num_filter // num_group, *out), "int64")
    for tap in itertools.product(*map(range, kernel)):
        part = x[(..., *[slice(i * d, i * d + (o - 1) * t + 1, t) for i, d, o, t in zip(tap, dilate, out, stride)])]
        total += np.einsum("ngc...,gfc->ngf...", part, w[(..., *tap)])
    total, low, high = _finished(total.reshape(len(x), num_filter, *out), data, bias, ranges, (-1, *[1] * n))
    return np.moveaxis(total, 1, -1) if last else total, low, high


row("quantized_conv", ref=_conv, dtypes="float32", samples=[
    S(int8(2, 3, 5, 6), int8(4, 3, 3, 2), int8(4), *A, *B, *C, kernel=(3, 2), num_filter=4),
    S(uint8(2, 3, 5, 6), int8(4, 3, 3, 2), int8(4), *A, *B, *C, kernel=(3, 2), num_filter=4, stride=(2, 1), pad=(1, 0),
      dilate=(1, 2)),
    S(int8(1, 2, 3, 4, 4), int8(3, 2, 2, 2, 2), *A, *B, kernel=(2, 2, 2), num_filter=3, no_bias=True, layout="NCHW"),
    S(int8(2, 4, 7), int8(6, 2, 3), None, *A, *B, kernel=(3,), num_filter=6, num_group=2, no_bias=True),
    S(uint8(2, 5, 6, 3), int8(4, 2, 2, 3), int8(4), *A, *B, *C, kernel=(2, 2), num_filter=4, layout="NHWC"),
    S(uint8(1, 300, 4, 4), int8(2, 300, 3, 3), *A, *B, kernel=(3, 3), num_filter=2, no_bias=True),
    S(int8(1, 2, 40, 40), int8(2, 2, 35, 35), *A, *B, kernel=(35, 35), num_filter=2, no_bias=True),
    S(int8(0, 3, 5, 6), int8(4, 3, 3, 2), int8(4), *A, *B, *C, kernel=(3, 2), num_filter=4)])


def _pool(q, low, high, kernel=(), pool_type="max", global_pool=False, pooling_convention="valid", stride=(), pad=(),
          count_include_pad=None, layout=None):
    last = layout is not None and layout[-1] == "C"
    x = np.moveaxis(q, -1, 1).astype(float) if last else q.astype(float)
    sizes, n = x.shape[2:], x.ndim - 2
    kernel, stride, pad = (sizes, (1,) * n, (0,) * n) if global_pool else (kernel, stride or (1,) * n, pad or (0,) * n)
    up = np.ceil if pooling_convention == "full" else np.floor
    out = [int(up((s + 2 * p - k) / t)) + 1 for s, p, k, t in zip(sizes, pad, kernel, stride)]
    result = np.zeros((*x.shape[:2], *out))
    for place in itertools.product(*map(range, out)):
        start = [i * t - p for i, t, p in zip(place, stride, pad)]
        window = x[(..., *[slice(max(a, 0), min(a + k, s)) for a, k, s in zip(start, kernel, sizes)])]
        axes = tuple(range(2, x.ndim))
        count = np.prod([min(a + k, s + p) - a for a, k, s, p in zip(start, kernel, sizes, pad)])
        result[(..., *place)] = (window.max(axes) if pool_type == "max" else window.mean(axes)
                                 if count_include_pad is False else window.sum(axes) / count)
    return np.rint(np.moveaxis(result, 1, -1) if last else result), low, high


POOLS = ({"kernel": (2, 2)}, {"kernel": (3, 2), "stride": (2, 2), "pad": (1, 1)},
         {"kernel": (2, 3), "stride": (2, 2), "pooling_convention": "full"}, {"global_pool": True},
         {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "count_include_pad": False})
row("quantized_pooling", ref=_pool, dtypes="float32", samples=[
    *[S(x(2, 3, 5, 6), *A, pool_type=t, **p) for x in (int8, uint8) for t in ("max", "avg") for p in POOLS],
    S(int8(2, 5, 6, 3), *A, kernel=(2, 2), pool_type="avg", layout="NHWC"), S(uint8(1, 2, 7), *A, kernel=(3,)),
    S(int8(1, 2, 3, 4, 4), *A, kernel=(2, 2, 2), pool_type="avg"), S(int8(0, 3, 5, 6), *A, kernel=(2, 2))])


def _batch_norm(q, gamma, beta, mean, var, low, high, min_calib_range, max_calib_range, eps=1e-3, fix_gamma=True,
                axis=1):
    shape = [1] * q.ndim
    shape[axis] = -1
    x = q.astype(float) if q.dtype == "int8" else np.rint(q * 127.5 / 255.5)
    x = x * largest(low, high) / 127.5
    slope = (1 if fix_gamma else gamma) / np.sqrt(var + eps)
    y = x * slope.reshape(shape) + (beta - mean * slope).reshape(shape)
    unit = 127.5 / largest(min_calib_range, max_calib_range)
    return stop(y * unit, "int8"), *ends(min_calib_range, max_calib_range)


def channels(n):
    return normal(n), normal(n), normal(n), uniform(n, low=0.3, high=2)


CALIBRATED = {"min_calib_range": -3.0, "max_calib_range": 4.0}
row("quantized_batch_norm", ref=_batch_norm, dtypes="float32", samples=[
    S(int8(2, 3, 4, 4), *channels(3), *A, fix_gamma=False, **CALIBRATED),
    S(uint8(5, 3), *channels(3), *B, fix_gamma=False, **CALIBRATED), S(int8(2, 3, 4), *channels(3), *A, **CALIBRATED),
    S(int8(2, 4, 3), *channels(3), *A, fix_gamma=False, eps=0.5, axis=-1, **CALIBRATED),
    S(int8(0, 3), *channels(3), *A, **CALIBRATED)])

# -- intgemm -------------------------------------------------------------------------------------------------------


def prepared(x, maxabs):
    return np.clip(np.rint(x * 127 / float(maxabs[0])), -127, 127) if maxabs[0] else x * 0


TWO = np.array([2.0])
row("intgemm_maxabsolute", ref=lambda x: np.abs(x).max(initial=0).reshape(1), dtypes="float32", samples=[
    S(normal(3, 4)), S(-np.ones((2, 2))), S(normal()), S(normal(0, 3))])
row("intgemm_prepare_data", ref=prepared, dtypes="float32", samples=[
    S(normal(3, 4), TWO), S(normal(), TWO), S(normal(0, 3), TWO), S(np.zeros(3), np.zeros(1))])
row("intgemm_prepare_weight", ref=lambda w, maxabs=None, already_quantized=False: w if already_quantized else
    prepared(w, maxabs), dtypes="float32", samples=[
        S(normal(8, 64), TWO), S(normal(2, 3, 5), TWO), S(int8(3, 4), None, already_quantized=True),
        S(normal(0, 3), TWO)])
row("intgemm_take_weight", ref=lambda w, i: w[i], samples=[
    S(int8(5, 4), ints(3, high=5, dtype="int32")), S(int8(5, 4), ints(0, dtype="int64"))])


def _intgemm(data, weight, scaling=None, bias=None, num_hidden=None, no_bias=False, flatten=True, out_type="float32"):
    if out_type == "int32" and bias is None and not no_bias:
        scaling, bias = None, scaling
    factor = 1.0 if scaling is None else float(scaling[0])
    if data.dtype == "float64":
        top = np.abs(data).max(initial=0).reshape(1)
        data, factor = prepared(data, top), factor * (1.0 if scaling is None else float(top[0]) / 127)
    x = data.reshape(len(data), int(np.prod(data.shape[1:]))) if flatten else data
    y = x.astype("int64") @ weight.T.astype("int64") * factor
    return y if no_bias else y + bias.reshape(-1)


FINE = np.array([0.01])
WHOLE = {"num_hidden": 4, "out_type": "int32"}
row("intgemm_fully_connected", ref=_intgemm, dtypes="float32", samples=[
    S(normal(3, 6), int8(4, 6), FINE, normal(4), num_hidden=4),
    S(int8(3, 6), int8(4, 6), FINE, normal(4), num_hidden=4),
    S(normal(3, 2, 3), int8(4, 6), FINE, None, num_hidden=4, no_bias=True),
    S(int8(2, 3, 6), int8(4, 6), None, ints(4, dtype="int32"), flatten=False, **WHOLE),
    S(int8(3, 6), int8(4, 6), ints(4, 1, dtype="int32"), None, **WHOLE),
    S(normal(3, 6), int8(4, 6), None, None, no_bias=True, **WHOLE),
    S(int8(2, 3000), int8(4, 3000), None, None, no_bias=True, **WHOLE),
    S(np.zeros((2, 6)), int8(4, 6), FINE, normal(4), num_hidden=4),
    S(int8(0, 6), int8(4, 6), None, None, no_bias=True, **WHOLE),
    S(normal(0, 6), int8(4, 6), FINE, normal(4), num_hidden=4)])
