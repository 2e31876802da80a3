"""``mx.npx.image`` and ``mx.nd.image``: MXNet's own results on images of uint8, gradients, checks of arguments, and how
random operators are distributed. Values in all dtypes and second derivatives are in ``tests/ops``."""
from __future__ import annotations

import zlib

import numpy as np
import pytest

import raynd as mx
from raynd import autograd, npx
from raynd.dispatch import function_of
from raynd.errors import MXNetError
from raynd.ops import registry

NAMES = ["adjust_lighting", "crop", "flip_left_right", "flip_top_bottom", "normalize", "random_brightness",
         "random_color_jitter", "random_contrast", "random_crop", "random_flip_left_right", "random_flip_top_bottom",
         "random_hue", "random_lighting", "random_resized_crop", "random_saturation", "resize", "to_tensor"]


def picture(height, width, channels=3):
    """An image of uint8 with all values, which needs no random generator."""
    n = np.arange(height * width * channels)
    return ((n * n * 31 + n * 97 + n // 7 * 13) % 256).astype("uint8").reshape(height, width, channels)


def array(x):
    """The raynd array of a NumPy array, with its dtype."""
    return mx.np.array(x, dtype=x.dtype)


def checksum(x):
    """The CRC-32 of an array's bytes."""
    return zlib.crc32(np.ascontiguousarray(x.asnumpy()).tobytes())


def hidden(name, data, **attrs):
    """What a random operator drew: its second output."""
    op = registry.get(f"image_{name}")
    return function_of(op)(data, **{**op.defaults, **attrs})[1].asnumpy()


def gradient(function, x, head):
    """The gradient of sum(function(x) * head), as a NumPy array."""
    x = array(x)
    x.attach_grad()
    with autograd.record():
        y = function(x)
    y.backward(array(head))
    return x.grad.asnumpy()


def test_namespaces():
    x = picture(4, 5)
    for space, kind, make in ((npx.image, mx.np.ndarray, array), (mx.nd.image, mx.nd.NDArray, mx.nd.array)):
        assert [n for n in NAMES if not hasattr(space, n)] == []
        assert type(space.resize(make(x), (3, 2), name="small")) is kind
    assert npx.image.__all__ == NAMES


# -- resizing ------------------------------------------------------------------------------------------------------

# Checksums of MXNet 2.0.0b1's results of resizing a picture of 60 rows and 81 columns, by size and method.
RESIZED = {
    (33, 47): [1506689415, 1161342032, 2347978994, 2275036851, 4175246820, 4044921659],
    (120, 90): [3483704260, 1303991331, 3263231928, 3021802788, 1902705319, 4255019778],
    (27, 30): [2873732597, 1704580378, 1947932590, 25218458, 3027447256, 1704580378],
    (27, 100): [2506699833, 3961257545, 1511159924, 54712633, 3168709863, 469483026],
    (40, 60): [3768999619, 2293063367, 489565084, 2014068667, 914396352, 3163810803],
    (81, 7): [3612811818, 1844878196, 2776908526, 1654351679, 4021873085, 2256120220],
}
HALVED = [2057121103, 366458915, 1539878602, 366458915, 3326621250, 366458915]      # 60 by 80, one channel, to 30 by 40


@pytest.mark.parametrize("interp", range(6))
def test_resize_of_uint8_is_mxnets(interp):
    x = array(picture(60, 81))
    for size, expected in RESIZED.items():
        assert checksum(npx.image.resize(x, size, interp=interp)) == expected[interp], size
    assert checksum(npx.image.resize(array(picture(60, 80, 1)), (40, 30), interp=interp)) == HALVED[interp]


@pytest.mark.parametrize("interp", range(6))
def test_resize_of_uint8_is_that_of_floats_rounded(interp):
    rng = np.random.default_rng(3)
    for _ in range(12):
        h, w, new_h, new_w = (int(n) for n in rng.integers(1, 40, 4))
        x = rng.integers(0, 256, (h, w, 2)).astype("uint8")
        whole = npx.image.resize(array(x), (new_w, new_h), interp=interp).asnumpy()
        exact = npx.image.resize(array(x.astype("float64")), (new_w, new_h), interp=interp).asnumpy()
        assert abs(whole - exact.clip(0, 255)).max() <= (1 if interp else 0)


def test_resize_of_batches_and_sizes():
    x = np.stack([picture(20, 30), picture(20, 30)[::-1]])
    batch = npx.image.resize(array(x), (17, 9)).asnumpy()
    for one, whole in zip(x, batch):
        np.testing.assert_array_equal(npx.image.resize(array(one), (17, 9)).asnumpy(), whole)
    assert npx.image.resize(array(x), 10).shape == (2, 10, 10, 3)
    assert npx.image.resize(array(x), 10, True).shape == (2, 10, 15, 3)
    assert npx.image.resize(array(x.swapaxes(1, 2).copy()), [10], keep_ratio=True).shape == (2, 15, 10, 3)
    assert npx.image.resize(array(x), (10, 12), keep_ratio=True).shape == (2, 12, 10, 3)
    assert npx.image.resize(array(picture(4, 4, 5)), 3).shape == (3, 3, 5)


def test_any_dtype_is_resized_to_nearest_pixels():
    for dtype in ("int8", "int32", "int64", "float16"):
        x = picture(6, 7).astype(dtype)
        result = npx.image.resize(array(x), (3, 2), interp=0)
        assert result.dtype == dtype
        np.testing.assert_array_equal(result.asnumpy(), x[[0, 3]][:, [0, 2, 4]])


# -- values and gradients ------------------------------------------------------------------------------------------


def test_colors_of_uint8_are_mxnets():
    x = array(picture(40, 50))
    gray = array(picture(40, 50)[..., :1].copy())
    for function, args, expected in (
            ("random_brightness", (1.25, 1.25), 1213630214), ("random_contrast", (0.5, 0.5), 4017943082),
            ("random_contrast", (1.75, 1.75), 2987387301), ("random_hue", (0.25, 0.25), 993537661),
            ("random_hue", (0.5, 0.5), 611245412), ("random_hue", (1.125, 1.125), 1016770596),
            ("adjust_lighting", ((0.5, -0.25, 0.125),), 4201141426)):
        assert checksum(getattr(npx.image, function)(x, *args)) == expected, function
    assert checksum(npx.image.random_contrast(gray, 0.5, 0.5)) == 2799531911
    assert checksum(npx.image.random_brightness(gray, 1.25, 1.25)) == 3072800679


def test_gray_images_have_no_saturation_hue_or_lighting():
    x = picture(6, 5, 1)
    for function, args in (("random_saturation", (0.2, 0.3)), ("random_hue", (0.2, 0.3)), ("random_lighting", (3.0,)),
                           ("adjust_lighting", ((1.0, 2.0, 3.0),)), ("random_color_jitter", (0, 0, 0.5, 0.5))):
        np.testing.assert_array_equal(getattr(npx.image, function)(array(x), *args).asnumpy(), x)


def test_saturation_of_none_is_gray():
    x = picture(6, 5).astype("float32")
    shade = x @ np.array([0.299, 0.587, 0.114], "float32")
    np.testing.assert_allclose(npx.image.random_saturation(array(x), 0, 0).asnumpy(),
                               np.repeat(shade[..., None], 3, axis=2), rtol=1e-5)


def test_to_tensor():
    x = picture(5, 6)
    for data in (x, np.stack([x, x])):
        result = npx.image.to_tensor(array(data))
        assert result.dtype == "float32"
        np.testing.assert_array_equal(result.asnumpy(), np.moveaxis(data.astype("float32") / np.float32(255), -1, -3))
    for value in (0, 255):
        assert (npx.image.to_tensor(array(np.full((10, 20, 3), value, "uint8"))) == value // 255).all()
    assert checksum(npx.image.to_tensor(array(picture(40, 50)))) == 1538743943
    head = np.arange(24, dtype="float32").reshape(3, 2, 4)
    np.testing.assert_allclose(gradient(npx.image.to_tensor, np.ones((2, 4, 3), "float32"), head),
                               head.transpose(1, 2, 0) / 255, rtol=1e-6)
    batch = gradient(npx.image.to_tensor, np.ones((2, 2, 4, 3), "float64"), np.stack([head, -head]))
    np.testing.assert_allclose(batch, np.stack([head, -head]).transpose(0, 2, 3, 1) / 255, rtol=1e-6)


def test_normalize():
    tensor = picture(40, 50).transpose(2, 0, 1).copy()
    assert checksum(npx.image.normalize(array(tensor), (1, 2, 3), (2, 3, 4))) == 1846920830
    x = npx.image.to_tensor(array(picture(40, 50)))
    assert checksum(npx.image.normalize(x, (.485, .456, .406), (.229, .224, .225))) == 4051925947
    assert (npx.image.normalize(x) == x).all()
    assert (npx.image.normalize(x, 1.0, 2.0) == npx.image.normalize(x, [1.0], [2.0])).all()
    for shape in ((3, 4, 5), (2, 3, 4, 5)):
        grad = gradient(lambda t: npx.image.normalize(t, (0, 1, 2), (3, 2, 1)), np.ones(shape, "float32"),
                        np.ones(shape, "float32"))
        np.testing.assert_allclose(grad, np.broadcast_to([[[1 / 3]], [[1 / 2]], [[1.0]]], shape), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
def test_crop(dtype):
    data = np.arange(60).reshape(5, 4, 3).astype(dtype)
    result = npx.image.crop(array(data), 0, 0, 3, 2).asnumpy()
    assert result.dtype == dtype and result.sum() == 180
    batch = np.arange(180).reshape(2, 6, 5, 3).astype(dtype)
    assert npx.image.crop(array(batch), 1, 2, 3, 4).asnumpy().sum() == 7524
    if dtype != "uint8":
        for x, y, width, height in ((0, 0, 3, 3), (2, 1, 1, 2), (0, 1, 3, 2)):
            expected = np.zeros_like(data)
            part = expected[y:y + height, x:x + width] = data[y:y + height, x:x + width]
            assert (gradient(lambda a, at=(x, y, width, height): npx.image.crop(a, *at), data, part) == expected).all()


def test_gradient_of_what_was_drawn():
    """The gradient of a random operator is that of the change that was made."""
    rng = np.random.default_rng(5)
    x, head = rng.random((6, 8, 3)) * 255, rng.random((6, 8, 3))
    for _ in range(4):
        flipped = gradient(npx.image.random_flip_left_right, x, head)
        assert (flipped == head).all() or (flipped == head[:, ::-1]).all()
    assert len({gradient(npx.image.random_flip_left_right, x, head).tobytes() for _ in range(20)}) == 2
    head = rng.random((4, 3, 3))
    data = array(x)
    data.attach_grad()
    with autograd.record():
        y = npx.image.random_resized_crop(data, width=3, height=4)
    y.backward(array(head))
    np.testing.assert_allclose((data.grad.asnumpy() * x).sum(), (y.asnumpy() * head).sum(), rtol=1e-6)    # it is linear


# -- what is refused -----------------------------------------------------------------------------------------------

IMAGE, BATCH = np.ones((6, 8, 3), "float32"), np.ones((2, 6, 8, 3), "float32")
REFUSED = [
    ("to_tensor", IMAGE[0], (), {}, "must have shape"), ("to_tensor", BATCH[None], (), {}, "must have shape"),
    ("to_tensor", IMAGE > 0, (), {}, "bools"),
    ("normalize", BATCH[None], (0, 1), {}, "must have shape"), ("normalize", np.ones((4, 2, 2)), (), {}, "1 or 3"),
    ("normalize", np.ones((3, 2, 2)), ((1.0, 2.0),), {}, "1 or 3 numbers"),
    ("normalize", np.ones((1, 2, 2)), (0, (1.0, 2.0, 3.0)), {}, "must have 1 numbers"),
    ("normalize", np.ones((3, 2, 2)), ("1",), {}, "must be numbers"),
    ("flip_left_right", BATCH, (), {}, "must have shape"), ("flip_top_bottom", IMAGE[..., :2], (), {}, "1 or 3"),
    ("random_flip_left_right", IMAGE, ("1",), {}, "must be a number"),
    ("crop", IMAGE, (0, 0, 9, 2), {}, "does not lie within"), ("crop", IMAGE, (0, 5, 1, 2), {}, "does not lie within"),
    ("crop", IMAGE, (-1, 0, 2, 2), {}, "does not lie within"), ("crop", IMAGE, (0, 0, 0, 2), {}, "greater than 0"),
    ("crop", IMAGE, (0, 0, -100, -50), {}, "greater than 0"), ("crop", IMAGE[..., :2], (0, 0, 1, 1), {}, "1 or 3"),
    ("crop", IMAGE, (0, 0, 1.5, 1), {}, "must be an integer"), ("crop", IMAGE, (0.5, 0, 1, 1), {}, "must be an int"),
    ("resize", IMAGE, (), {}, "size must be"), ("resize", IMAGE, ((1, 2, 3),), {}, "size must be"),
    ("resize", IMAGE, (0,), {}, "greater than 0"), ("resize", IMAGE, ((-25, 25),), {}, "greater than 0"),
    ("resize", IMAGE, ((2.5, 2),), {}, "must be an integer"), ("resize", IMAGE[0], (3,), {}, "must have shape"),
    ("resize", IMAGE, (3,), {"interp": 6}, "interp must be"), ("resize", IMAGE, (3,), {"interp": -1}, "interp must be"),
    ("resize", IMAGE, (3, False, None), {}, "interp must be"), ("resize", IMAGE[:0], (3,), {}, "no pixels"),
    ("resize", IMAGE.astype("int32"), (3,), {}, "interp=0"),
    ("random_crop", IMAGE, (), {}, "width must be given"), ("random_crop", IMAGE, (), {"width": 3}, "height must be"),
    ("random_crop", IMAGE, ((0, 2), (0, 1), 3, 3), {}, "xrange"), ("random_crop", IMAGE, ((0, 1), (1, 0), 3, 3), {},
                                                                  "yrange"),
    ("random_crop", IMAGE, (0.5, (0, 1), 3, 3), {}, "must be numbers"),
    ("random_crop", IMAGE, (), {"width": 3, "height": 3, "interp": 9}, "interp must be"),
    ("random_crop", IMAGE[..., :2], (), {"width": 3, "height": 3}, "1 or 3"),
    ("random_crop", IMAGE.astype("int64"), (), {"width": 30, "height": 3}, "interp=0"),
    ("random_resized_crop", IMAGE, (3, 0), {}, "greater than 0"),
    ("random_resized_crop", IMAGE, (3, 3), {"area": 0.5}, "must be numbers"),
    ("random_resized_crop", IMAGE, (3, 3), {"area": (-0.5, 1.0)}, "at least 0"),
    ("random_resized_crop", IMAGE, (3, 3), {"ratio": (0.0, 1.0)}, "positive"),
    ("random_resized_crop", IMAGE, (3, 3), {"max_trial": -1}, "max_trial"),
    ("random_resized_crop", IMAGE, (3, 3), {"interp": 7}, "interp must be"),
    ("random_brightness", IMAGE, (-1, 1), {}, "min_factor must be at least 0"),
    ("random_contrast", IMAGE, (0, -1), {}, "max_factor must be at least 0"),
    ("random_hue", BATCH, (0, 1), {}, "must have shape"), ("random_saturation", IMAGE > 0, (0, 1), {}, "bools"),
    ("random_color_jitter", IMAGE[..., :2], (1, 1, 1, 1), {}, "1 or 3"),
    ("random_color_jitter", IMAGE, ("1", 1, 1, 1), {}, "must be a number"),
    ("adjust_lighting", IMAGE, ((1, 2),), {}, "3 numbers"), ("adjust_lighting", IMAGE, (1.0,), {}, "must be numbers"),
    ("random_lighting", IMAGE, ("a",), {}, "must be a number"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda c: f"{c[0]}-{c[4]}".replace(" ", "_"))
def test_refused(case):
    name, data, args, kwargs, message = case
    with pytest.raises(MXNetError, match=message):
        getattr(npx.image, name)(array(data), *args, **kwargs)


@pytest.mark.parametrize("name", ["adjust_lighting", "crop", "random_brightness", "random_color_jitter",
                                  "random_contrast", "random_hue", "random_resized_crop", "random_saturation"])
def test_what_is_required(name):
    with pytest.raises(TypeError, match="missing"):
        getattr(npx.image, name)(array(IMAGE))


# -- randomness ----------------------------------------------------------------------------------------------------

RANDOM = {"random_brightness": (0.5, 1.5), "random_contrast": (0.5, 1.5), "random_saturation": (0.5, 1.5),
          "random_hue": (0.5, 1.5), "random_color_jitter": (0.4, 0.4, 0.4, 0.4), "random_lighting": (0.1,),
          "random_crop": ((0, 1), (0, 1), 5, 4), "random_resized_crop": (5, 4), "random_flip_left_right": (0.5,),
          "random_flip_top_bottom": (0.5,)}


@pytest.mark.parametrize("name", RANDOM)
def test_seeds_reproduce(name):
    x = array(picture(30, 40).astype("float32"))
    runs = []
    for seed in (7, 7, 8):
        mx.random.seed(seed)
        runs.append([getattr(npx.image, name)(x, *RANDOM[name]).asnumpy() for _ in range(8)])
    for a, b in zip(*runs[:2]):
        np.testing.assert_array_equal(a, b)
    assert len({y.tobytes() for y in runs[0]}) > 1
    assert {y.tobytes() for y in runs[0]} != {y.tobytes() for y in runs[2]} or "flip" in name


class Augment(mx.gluon.HybridBlock):
    """What a training pipeline does to its images."""

    def forward(self, x):
        x = npx.image.random_resized_crop(x, width=12, height=10)
        x = npx.image.random_flip_left_right(x)
        x = npx.image.random_color_jitter(x, 0.3, 0.3, 0.3, 0.1)
        x = npx.image.random_lighting(x, 0.1)
        return npx.image.normalize(npx.image.to_tensor(x), (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))


def test_hybridized_as_eager():
    x, results = array(picture(30, 40)), []
    for hybrid in (False, True):
        block = Augment()
        block.initialize()
        if hybrid:
            block.hybridize()
        mx.random.seed(3)
        results.append([block(x).asnumpy() for _ in range(4)])
    np.testing.assert_array_equal(results[0], results[1])
    assert (results[0][0] != results[0][1]).any()


def uniform(values, low, high):
    """Assert that ``values`` look uniform: within the range, near its ends, and with its moments."""
    values = np.asarray(values)
    width, count = high - low, len(values)
    assert values.min() >= low and values.max() <= high
    assert values.min() < low + 12 * width / count and values.max() > high - 12 * width / count
    assert abs(values.mean() - (low + high) / 2) < 5 * width / np.sqrt(12 * count)
    assert abs(values.var() - width ** 2 / 12) < 5 * width ** 2 / np.sqrt(180 * count)


@pytest.mark.parametrize("p", [0.0, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("name", ["random_flip_left_right", "random_flip_top_bottom"])
def test_probability_of_a_flip(name, p):
    x = array(picture(2, 2, 1))
    mean = np.mean([hidden(name, x, p=p) for _ in range(1000)])
    assert abs(mean - p) <= 5 * np.sqrt(p * (1 - p) / 1000)


def test_random_factors_are_uniform():
    x = array(picture(2, 2))
    for name in ("random_brightness", "random_contrast", "random_saturation", "random_hue"):
        uniform([hidden(name, x, min_factor=0.5, max_factor=2.5)[0, 1] for _ in range(500)], 0.5, 2.5)
    bright = array(np.ones((1, 1, 3), "float32"))
    uniform([npx.image.random_brightness(bright, 0.5, 2.5).asnumpy()[0, 0, 0] for _ in range(500)], 0.5, 2.5)


def test_color_jitter_is_uniform_and_in_any_order():
    limits = {"brightness": 0.4, "contrast": 0.3, "saturation": 0.2, "hue": 0.1}
    drawn = np.array([hidden("random_color_jitter", array(picture(1, 1)), **limits) for _ in range(1200)])
    for kind, limit in enumerate(limits.values()):
        uniform(drawn[..., 1][drawn[..., 0] == kind] - (kind != 3), -limit, limit)
    orders, counts = np.unique(drawn[..., 0], axis=0, return_counts=True)
    assert len(orders) == 24 and counts.min() > 15 and counts.max() < 95
    limits.update(contrast=0.0, hue=-1)
    assert {tuple(hidden("random_color_jitter", array(picture(1, 1)), **limits)[:, 0]) for _ in range(40)} \
        == {(0, 2), (2, 0)}


def test_lighting_is_normal():
    x = np.zeros((1, 1, 3), "float32")
    drawn = np.array([npx.image.random_lighting(array(x), 0.1).asnumpy().ravel() for _ in range(1000)])
    unit = [npx.image.adjust_lighting(array(x), alpha).asnumpy().ravel() for alpha in np.eye(3).tolist()]
    alpha = np.linalg.solve(np.transpose(unit), drawn.T)
    assert (abs(alpha.mean(axis=1)) < 5 * 0.1 / np.sqrt(1000)).all()
    np.testing.assert_allclose(alpha.std(axis=1), 0.1, rtol=0.15)
    assert (abs(np.corrcoef(alpha)[np.triu_indices(3, 1)]) < 0.2).all()


def test_places_of_random_crops():
    x = array(picture(9, 12))
    drawn = np.array([hidden("random_crop", x, width=5, height=4) for _ in range(800)])
    assert (drawn[:, 2:] == (5, 4)).all()
    for offsets, left in ((drawn[:, 0], 7), (drawn[:, 1], 5)):          # places from 0 to one less than there are left
        values, counts = np.unique(offsets, return_counts=True)
        assert values.tolist() == list(range(left)) and abs(counts - 800 / left).max() < 5 * np.sqrt(800 / left)
    half = np.array([hidden("random_crop", x, width=2, height=3, xrange=(0.5, 1.0), yrange=(0.5, 0.5))
                     for _ in range(200)])
    assert set(half[:, 0]) == set(range(5, 10)) and set(half[:, 1]) == {3}
    for size, place in (((24, 18), (0, 0, 12, 9)), ((24, 6), (None, None, 12, 3)), ((1, 90), (0, 0, 1, 9))):
        got = hidden("random_crop", x, width=size[0], height=size[1], xrange=(0, 0), yrange=(0, 0)).tolist()
        assert got == [0 if p is None else p for p in place]


def test_a_crop_in_the_middle():
    x = picture(9, 12)
    result = npx.image.random_crop(array(x), (0.5, 0.5), (0.5, 0.5), 4, 3, 1).asnumpy()
    np.testing.assert_array_equal(result, x[3:6, 4:8])
    larger = npx.image.random_crop(array(x), (0.5, 0.5), (0.5, 0.5), 24, 24, 2).asnumpy()
    middle = npx.image.crop(array(x), 1, 0, 9, 9)
    np.testing.assert_array_equal(larger, npx.image.resize(middle, (24, 24), interp=2).asnumpy())


def test_random_resized_crops():
    x = array(picture(2000, 1000, 1))
    drawn = np.array([hidden("random_resized_crop", x, width=5, height=5, area=(0.1, 0.3), ratio=(0.8, 1.25))
                      for _ in range(800)])
    left, top, width, height = drawn.T
    uniform(width * height / 2e6, 0.1 * 0.997, 0.3 * 1.003)             # sizes are rounded
    uniform(np.log(width / height), np.log(0.8) - 0.003, np.log(1.25) + 0.003)
    uniform((left + 0.5) / (1000 - width), 0, 1)
    uniform((top + 0.5) / (2000 - height), 0, 1)
    x = array(picture(200, 100))             # None fits: the largest part in the middle with the result's shape.
    assert hidden("random_resized_crop", x, width=10, height=10, max_trial=0).tolist() == [45, 95, 10, 10]
    assert hidden("random_resized_crop", x, width=500, height=250, area=(4.0, 5.0)).tolist() == [0, 75, 100, 50]
    assert npx.image.random_resized_crop(x, width=500, height=250, area=(4.0, 5.0)).shape == (250, 500, 3)
    batch = array(np.stack([picture(20, 30)] * 2))
    result = npx.image.random_resized_crop(batch, width=5, height=6, interp=3).asnumpy()
    assert result.shape == (2, 6, 5, 3) and (result[0] == result[1]).all()
