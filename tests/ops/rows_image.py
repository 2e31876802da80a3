"""Rows of the operators on images. Those that draw are checked against what they say they drew; how it is distributed,
images of uint8, and MXNet's own results are in ``tests/test_image_ops.py``."""
import colorsys

import numpy as np
from table import S, exempt, row, uniform


def image(*shape):
    """An image, or a batch of them, with values in [0, 255)."""
    return uniform(*shape, low=0.0, high=255.0)


# -- resizing: weights from the kernels' formulas, for every new pixel and every old one ---------------------------


def _keys(d, a=-0.75):
    d = abs(d)
    return (a + 2) * d ** 3 - (a + 3) * d ** 2 + 1 if d <= 1 else a * d ** 3 - 5 * a * d ** 2 + 8 * a * d - 4 * a


KERNELS = {1: (1, lambda d: 1 - abs(d)), 5: (1, lambda d: 1 - abs(d)), 2: (2, _keys),
           4: (4, lambda d: np.sinc(d) * np.sinc(d / 4))}


def _overlap(n, new):
    """Averages of the old pixels under each new one; the shares below 1/1000 of a pixel do not occur here."""
    scale = n / new
    return np.array([[max(0, min(j + 1, (i + 1) * scale) - max(j, i * scale)) / scale for j in range(n)]
                     for i in range(new)])


def _axis(n, new, interp, averages):
    """The matrix that resizes one axis."""
    scale, result = n / new, np.zeros((new, n))
    if interp == 3 and averages:
        return _overlap(n, new)
    for i in range(new):
        if interp == 0:
            result[i, min(int(i * scale), n - 1)] = 1
        elif interp == 3:                    # the share of a new pixel that lies beyond its first old one, as it is
            first = int(i * scale)           # seen from there: old pixels are wider than new ones
            t = max(0, (i + 1) - (first + 1) / scale)
            for j, w in ((first, 1 - t % 1), (first + 1, t % 1)):
                result[i, min(j, n - 1)] += w
        else:
            reach, kernel = KERNELS[interp]
            at = np.float32((i + 0.5) * scale - 0.5)
            taps = range(int(np.floor(at)) - reach + 1, int(np.floor(at)) + reach + 1)
            weights = np.array([kernel(at - j) for j in taps])
            for j, w in zip(taps, weights / weights.sum()):
                result[i, min(max(j, 0), n - 1)] += w
    return result


def resized(x, width, height, interp=1):
    """Images in another size."""
    h, w = x.shape[-3:-1]
    averages = h >= height and w >= width
    if interp in (1, 5) and (h, w) == (2 * height, 2 * width):
        interp = 3
    rows, columns = _axis(h, height, interp, averages), _axis(w, width, interp, averages)
    return np.einsum("ih,jw,...hwc->...ijc", rows, columns, x)


def _resize(x, size=(), keep_ratio=False, interp=1):
    h, w = x.shape[-3:-1]
    if isinstance(size, tuple) and len(size) == 2:
        return resized(x, *size, interp)
    size = size[0] if isinstance(size, tuple) else size
    if not keep_ratio:
        return resized(x, size, size, interp)
    return resized(x, *((size, h * size // w) if h > w else (w * size // h, size)), interp)


SHAPES = [((5, 7, 3), (4, 3)), ((6, 8, 1), (4, 3)), ((2, 5, 4, 3), (9, 11)), ((4, 9, 2), (3, 7)), ((9, 6, 1), (2, 3)),
          ((5, 4, 3), (4, 5)), ((1, 1, 3), (2, 3)), ((0, 4, 4, 3), (2, 3))]
row("image_resize", ref=_resize, dtypes="float16 float32", tol=2,
    samples=[S(image(*shape), size=size, interp=interp) for shape, size in SHAPES for interp in range(6)]
    + [S(image(6, 4, 3), size=3), S(image(6, 4, 3), size=(3,), keep_ratio=True), S(image(4, 7, 3), size=3, interp=2,
                                                                                 keep_ratio=True)])
exempt("image_resize_grad", "image_resize")

# -- tensors, flips, crops -----------------------------------------------------------------------------------------

row("image_to_tensor", ref=lambda x: np.moveaxis(x / 255, -1, -3).astype("float32"), grad=(), ints_as="uint8 int32",
    samples=[S(image(3, 4, 3)), S(image(2, 3, 4, 1)), S(image(3, 2, 5)), S(image(0, 3, 4, 3))])


def _normalized(x, mean=0.0, std=1.0):
    mean, std = (np.broadcast_to(v, x.shape[-3])[:, None, None] for v in (mean, std))
    return (x - mean) / std


row("image_normalize", ref=_normalized, samples=[
    S(image(3, 4, 5), mean=(10.0, 20.0, 30.0), std=(2.0, 3.0, 4.0)), S(image(2, 3, 4, 5), mean=1.5, std=2),
    S(image(1, 4, 5), mean=(5.0,), std=(0.5,)), S(image(3, 2, 2)), S(image(2, 1, 2, 2), std=3.0),
    S(image(0, 3, 4, 5), mean=1.0)])

FLIPS = [S(image(3, 4, 3)), S(image(4, 5, 1)), S(image(1, 1, 3)), S(image(0, 3, 3))]
row("image_flip_left_right", ref=lambda x: x[:, ::-1], samples=FLIPS, ints_as="uint8")
row("image_flip_top_bottom", ref=lambda x: x[::-1], samples=FLIPS, ints_as="uint8")


def _flipped(axis):
    def check(inputs, outputs, attrs):
        flag = bool(outputs[1])
        assert flag == {0.0: False, 1.0: True}.get(attrs["p"], flag)
        np.testing.assert_array_equal(outputs[0], np.flip(inputs[0], axis) if flag else inputs[0])
    return check


for _name, _axis_ in (("left_right", 1), ("top_bottom", 0)):
    row(f"image_random_flip_{_name}", check=_flipped(_axis_), outputs=(0,), ints_as="uint8",
        samples=[S(image(3, 4, 3), p=p) for p in (0.0, 0.5, 1.0)] + [S(image(0, 3, 1), p=0.5)])
    exempt(f"image_flip_{_name}_if", f"image_random_flip_{_name}")

row("image_crop", ref=lambda a, x, y, width, height: a[..., y:y + height, x:x + width, :], ints_as="uint8 int64",
    samples=[S(image(5, 6, 3), x=1, y=2, width=4, height=3), S(image(2, 4, 3, 1), x=0, y=0, width=3, height=4),
             S(image(4, 4, 3), x=3, y=3, width=1, height=1), S(image(0, 4, 4, 3), x=0, y=1, width=2, height=2)])


def _cropped(inputs, outputs, attrs):
    (data,), (result, place) = inputs, outputs
    x, y, w, h = place
    rows, columns = data.shape[-3:-1]
    assert 0 <= x <= columns - w and 0 <= y <= rows - h and w > 0 and h > 0
    part = data[..., y:y + h, x:x + w, :]
    if (w, h) != (attrs["width"], attrs["height"]):
        part = resized(part.astype("float64"), attrs["width"], attrs["height"], attrs.get("interp", 1))
    tolerance = {"float16": 3e-3, "uint8": 0}.get(data.dtype.name, 1e-5) * 255
    np.testing.assert_allclose(result.astype("float64"), part, rtol=0, atol=tolerance)


row("image_random_crop", check=_cropped, outputs=(0,), samples=[
    S(image(6, 7, 3), width=4, height=3), S(image(2, 5, 4, 1), width=4, height=5), S(image(4, 3, 3), width=8, height=6),
    S(image(6, 7, 3), xrange=(0.5, 0.5), yrange=(0, 0), width=3, height=3), S(image(5, 4, 3), width=6, height=2),
    S(image(5, 4, 1), width=3, height=7, interp=2), S(image(0, 5, 4, 3), width=3, height=3)])
row("image_random_resized_crop", check=_cropped, outputs=(0,), samples=[
    S(image(9, 8, 3), width=4, height=5, interp=interp) for interp in range(6)] + [
    S(image(2, 6, 7, 2), width=3, height=3, area=(0.3, 0.4), ratio=(1.0, 1.0)),
    S(image(5, 6, 3), width=4, height=2, area=(2, 3)), S(image(5, 6, 3), width=9, height=9, max_trial=0),
    S(image(0, 5, 4, 3), width=3, height=3)])
for _name in ("image_crop_resize", "image_crop_resize_grad"):
    exempt(_name, "image_random_crop", "image_random_resized_crop")

# -- colours -------------------------------------------------------------------------------------------------------

LUMA = np.array([0.299, 0.587, 0.114])


def _shade(x):
    return x if x.shape[2] == 1 else (x * LUMA).sum(axis=2, keepdims=True)


def _turned(x, amount):
    """Hues turned, pixel by pixel, by the standard library."""
    if x.shape[2] == 1:
        return x
    result = np.empty_like(x)
    for place in np.ndindex(x.shape[:2]):
        hue, light, saturation = colorsys.rgb_to_hls(*(x[place] / 255))
        result[place] = np.multiply(colorsys.hls_to_rgb((hue + amount) % 1, light, saturation), 255)
    return result


STEPS = [lambda x, a: a * x, lambda x, a: a * x + (1 - a) * _shade(x).mean() if x.size else x,
         lambda x, a: a * x + (1 - a) * _shade(x) if x.shape[2] > 1 else x, _turned]


def _colored(inputs, outputs, attrs):
    (data,), (result, steps) = inputs, outputs
    expected = data.astype("float64")
    for kind, amount in steps:
        expected = STEPS[int(kind)](expected, amount)
        if data.dtype == "uint8":
            expected = np.clip(expected, 0, 255)
    tolerance = {"float16": 0.5, "float32": 2e-3, "uint8": 1.001 * len(steps)}.get(data.dtype.name, 1e-9)
    np.testing.assert_allclose(result.astype("float64"), expected, rtol=0, atol=tolerance)
    if "min_factor" in attrs:
        assert len(steps) == 1 and attrs["min_factor"] <= steps[0, 1] <= attrs["max_factor"]


IMAGES = [(4, 5, 3), (3, 4, 1), (1, 2, 3), (0, 3, 3)]
for _name in ("brightness", "contrast", "saturation", "hue"):
    row(f"image_random_{_name}", check=_colored, outputs=(0,), ints_as="uint8",
        samples=[S(image(*shape), min_factor=0.2, max_factor=1.6) for shape in IMAGES]
        + [S(image(4, 4, 3), min_factor=0.5, max_factor=0.5)])
row("image_random_color_jitter", check=_colored, outputs=(0,), ints_as="uint8", samples=[
    S(image(4, 5, 3), brightness=0.3, contrast=0.4, saturation=0.5, hue=0.4),
    S(image(3, 4, 3), brightness=0, contrast=0.4, saturation=0.0, hue=1), S(image(3, 4, 3), brightness=-1, contrast=0,
                                                                          saturation=0, hue=0),
    S(image(3, 4, 1), brightness=0.3, contrast=0.4, saturation=0.5, hue=0.4),
    S(image(0, 4, 3), brightness=0.3, contrast=0.4, saturation=0.5, hue=0.4)])
for _name in ("image_color_grad", "image_color_change"):
    exempt(_name, "image_random_contrast", "image_random_saturation", "image_random_hue", "image_random_color_jitter")

COMPONENTS = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])
DEVIATIONS = np.array([55.46, 4.794, 1.148])
row("image_adjust_lighting", dtypes="float16 float32", samples=[
    S(image(*shape), alpha=(0.1, -0.2, 0.3)) for shape in IMAGES],
    ref=lambda x, alpha: x if x.shape[2] == 1 else x + COMPONENTS @ (DEVIATIONS * alpha))


def _lit(inputs, outputs, attrs):
    shift = (outputs[0].astype("float64") - inputs[0]).reshape(-1, inputs[0].shape[2])
    if shift.size and inputs[0].shape[2] == 3:
        np.testing.assert_allclose(shift, np.broadcast_to(shift.mean(axis=0), shift.shape), atol=0.3)
        alpha = np.linalg.solve(COMPONENTS * DEVIATIONS, shift.mean(axis=0))
        assert (abs(alpha) < 6 * attrs["alpha_std"] + 0.2).all()
    else:
        assert not shift.any()


row("image_random_lighting", check=_lit, samples=[S(image(*shape), alpha_std=0.1) for shape in IMAGES])
