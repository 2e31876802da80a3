"""Random changes of an image's colours, and of its lighting. Images have shape (height, width, 1 or 3 channels).

A change is made of *steps*, pairs of a kind and an amount: brightness, contrast, saturation and hue. The random
operators draw them, and they are a second output, from which gradients are computed. Pixels are computed in floats;
those of integers are cut off at the decimal point after every step, those of uint8 also at 0 and 255.

For a given amount, every step is linear in the image, or (hue) in pieces that meet where channels are equal.
"""
from __future__ import annotations

import numpy

from ..errors import ShapeError
from ..spec import spec
from .image import check_image, number, numbers, truncated
from .registry import operator
from .softmax import wide

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)
_GRAY = (0.299, 0.587, 0.114)            # the luma of R, G and B (ITU-R BT.601)

# -- steps: the value, its change along `g`, and the adjoint of that change ----------------------------------------


def _gray(xp, x):
    """The shades of the pixels, with an axis of length 1 for the channels."""
    return sum(c * x[..., i:i + 1] for i, c in enumerate(_GRAY)) if x.shape[2] == 3 else x


def _spread(xp, shade, channels):
    """The adjoint of :func:`_gray`."""
    return xp.concatenate([c * shade for c in _GRAY], axis=2) if channels == 3 else shade


def _mean(xp, x):
    """The mean over all pixels; added up in doubles, since large images have many."""
    return (x.sum(axis=(0, 1), dtype="float64", keepdims=True) / max(1, x.shape[0] * x.shape[1])).astype(x.dtype)


def _brightness(xp, x, amount):
    return x * amount


def _contrast(xp, x, amount):
    """Away from the mean shade of the image."""
    return x * amount + (1 - amount) * _mean(xp, _gray(xp, x))


def _contrast_adjoint(xp, x, amount, dy):
    shade = _mean(xp, dy).sum(axis=2, keepdims=True)
    return dy * amount + (1 - amount) * _spread(xp, shade, x.shape[2])


def _saturation(xp, x, amount):
    """Away from the shade of each pixel."""
    if x.shape[2] == 1:
        return x
    return x * amount + (1 - amount) * _gray(xp, x)


def _saturation_adjoint(xp, x, amount, dy):
    if x.shape[2] == 1:
        return dy
    return dy * amount + (1 - amount) * _spread(xp, dy.sum(axis=2, keepdims=True), 3)


# For each sixth of the circle of hues, which of a pixel's (least, greatest, middle) value R, G and B are.
_SIXTHS = numpy.array([[1, 2, 0], [2, 1, 0], [0, 1, 2], [0, 2, 1], [2, 0, 1], [1, 0, 2]])


def _turned(xp, x, amount):
    """The parts of a change of hue by ``amount`` of the circle. Of each pixel, whose colours are in [0, 1]: the
    greatest and least value, whether it is coloured, which channel is greatest, the old hue in sixths from there, and
    the new one as a sixth and the way into it."""
    r, g, b = xp.ascontiguousarray(xp.moveaxis(x, 2, 0)) / 255          # planes are many times faster than pixels
    high, low = xp.maximum(xp.maximum(r, g), b), xp.minimum(xp.minimum(r, g), b)
    colored = high - low > numpy.finfo("float32").eps
    top = xp.where(high == r, 0, xp.where(high == g, 1, 2))
    ahead = xp.where(top == 0, g - b, xp.where(top == 1, b - r, r - g))
    range_ = xp.where(colored, high - low, 1)
    degrees = ahead * (60 / range_) + (top * 120).astype(x.dtype)
    hue = (xp.where(colored, xp.where(degrees < 0, degrees + 360, degrees), 0) + amount * 360) * (1 / 60)
    hue = hue - 6 * xp.floor(hue / 6)
    sixth = xp.floor(hue)
    return high, low, colored, top, ahead / range_, sixth.astype("int64") % 6, hue - sixth


def _hue(xp, x, amount):
    """Turned around the circle of hues, with lightness and saturation kept. (By way of these, though greatest and least
    value stay as they are: so the last bits are MXNet's, on which depends what is cut off.)"""
    if x.shape[2] == 1:
        return x
    high, low, colored, _, _, sixth, way = _turned(xp, x, amount)
    light = (high + low) * 0.5
    range_ = xp.where(light < 0.5, high + low, 2 - high - low)
    saturation = xp.where(colored, (high - low) / xp.where(range_ == 0, 1, range_), 0)
    greatest = xp.where(light <= 0.5, light * (1 + saturation), light + saturation - light * saturation)
    greatest = xp.where(range_ == 0, high, greatest)
    least = 2 * light - greatest
    middle = least + (greatest - least) * xp.where(sixth % 2 == 1, 1 - way, way)
    parts = (xp.stack([least, greatest, middle]) * 255).reshape(3 * light.size)
    pixel, which = xp.arange(light.size).reshape(light.shape), xp.asarray(_SIXTHS * light.size)
    return xp.stack([xp.take(parts, xp.take(which[:, c], sixth) + pixel) for c in range(3)], axis=2)


def _hue_slopes(xp, x, amount):
    """The derivatives (height, width, 3 new, 3 old) of the new colours by the old ones."""
    _, _, colored, top, old, sixth, way = _turned(xp, x, amount)
    unit = xp.eye(3, dtype=x.dtype)
    at_high, at_low = unit[top], unit[x.argmin(axis=2)]
    odd = (sixth % 2 == 1)[..., None]
    share = (way - old)[..., None]
    turn = unit[(top + 1) % 3] - unit[(top + 2) % 3]
    middle = at_low + xp.where(odd, 1 - share, share) * (at_high - at_low) + xp.where(odd, -turn, turn)
    parts = xp.stack([at_low, at_high, middle], axis=2)
    index = xp.broadcast_to(xp.asarray(_SIXTHS)[sixth][..., None], parts.shape)
    result = xp.take_along_axis(parts, index, axis=2)
    return xp.where(colored[..., None, None], result, (0.5 * (at_high + at_low))[:, :, None])


def _hue_change(xp, x, amount, g):
    return g if x.shape[2] == 1 else (_hue_slopes(xp, x, amount) * g[:, :, None]).sum(axis=3)


def _hue_adjoint(xp, x, amount, dy):
    return dy if x.shape[2] == 1 else (_hue_slopes(xp, x, amount) * dy[..., None]).sum(axis=2)


_STEPS = {BRIGHTNESS: (_brightness, None, lambda xp, x, amount, dy: dy * amount),
          CONTRAST: (_contrast, None, _contrast_adjoint),
          SATURATION: (_saturation, None, _saturation_adjoint),
          HUE: (_hue, _hue_change, _hue_adjoint)}


def _stored(xp, values, dtype):
    """Computed colours as an image of ``dtype``."""
    return xp.clip(values, 0, 255).astype("uint8") if dtype == "uint8" else truncated(xp, values, dtype)


def _apply(xp, data, steps):
    """The image after ``steps``, a list of (kind, amount)."""
    for kind, amount in steps:
        data = _stored(xp, _STEPS[kind][0](xp, wide(xp, data), amount), data.dtype)
    return data


def _before(xp, data, steps):
    """Triples of kind, amount and the image before each of ``steps``."""
    for kind, amount in steps.tolist():
        data = wide(xp, data)
        yield int(kind), amount, data
        data = _STEPS[kind][0](xp, data, amount)


def _color_change(xp, g, data, steps):
    g = wide(xp, g)
    for kind, amount, x in _before(xp, data, steps):
        value, change, _ = _STEPS[kind]
        g = value(xp, g, amount) if change is None else change(xp, x, amount, g)
    return g


def _color_adjoint(xp, dy, data, steps):
    dy = wide(xp, dy)
    for kind, amount, x in reversed(list(_before(xp, data, steps))):
        dy = _STEPS[kind][2](xp, x, amount, dy)
    return dy


operator("image_color_grad", "dy, data, steps", infer=lambda dy, data, steps: data, kernel=_color_adjoint,
         vjp=lambda F, g, x, y: (F.image_color_change(g, x[1], x[2]), None, None))
operator("image_color_change", "g, data, steps", infer=lambda g, data, steps: data, kernel=_color_change,
         vjp=lambda F, dy, x, y: (F.image_color_grad(dy, x[1], x[2]), None, None))

# -- random steps --------------------------------------------------------------------------------------------------


def _changed(xp, data, steps):
    """The outputs of a random operator."""
    return _apply(xp, data, steps), xp.asarray(steps, dtype="float64").reshape(len(steps), 2)


def _color_vjp(F, dy, x, y, **attrs):
    return None if dy[0] is None else F.image_color_grad(dy[0], x[0], y[1])


def _random_step(kind, name, doc):
    """The operator of one step of a random amount."""
    def infer(data, min_factor, max_factor):
        check_image(name, data, batches=False)
        for which, value in (("min_factor", min_factor), ("max_factor", max_factor)):
            if number(name, which, value) < 0:
                raise ShapeError(f"{name}: {which} must be at least 0, not {value}")
        return data, spec((1, 2), "float64")

    def kernel(xp, data, min_factor, max_factor, rng):
        amount = min_factor + (max_factor - min_factor) * float(rng.random(1)[0])
        return _changed(xp, data, [(kind, amount)])

    operator(f"image_{name}", "data, min_factor, max_factor, out=None", inputs="data", infer=infer, kernel=kernel,
             vjp=_color_vjp, draws=1, outputs=1, image=name, doc=doc)


_random_step(BRIGHTNESS, "random_brightness", "An image times a number between ``min_factor`` and ``max_factor``.")
_random_step(CONTRAST, "random_contrast", "An image whose distance from its mean shade is multiplied by a number "
             "between ``min_factor`` and ``max_factor``.")
_random_step(SATURATION, "random_saturation", "An image whose pixels' distance from their own shades is multiplied by "
             "a number between ``min_factor`` and ``max_factor``.")
_random_step(HUE, "random_hue", "An image with its hues turned by a share between ``min_factor`` and ``max_factor`` of "
             "the circle; 1 is a whole turn.")


def _infer_jitter(data, **limits):
    check_image("random_color_jitter", data, batches=False)
    active = [name for name, limit in limits.items() if number("random_color_jitter", name, limit) > 0]
    return data, spec((len(active), 2), "float64")


def _jitter(xp, data, brightness, contrast, saturation, hue, rng):
    """Random changes of an image in random order.

    Brightness, contrast and saturation are multiplied by ``1 + u`` and hues are turned by ``u`` of the circle, each
    with a uniform number ``u`` between minus and plus its limit. Limits up to 0 leave theirs alone.
    """
    limits = dict(enumerate((brightness, contrast, saturation, hue)))
    place, u = rng.random((2, 4)).tolist()
    steps = [(k, (k != HUE) + limit * (2 * u[k] - 1)) for k, limit in limits.items() if limit > 0]
    return _changed(xp, data, sorted(steps, key=lambda step: place[step[0]]))


operator("image_random_color_jitter", "data, brightness, contrast, saturation, hue, out=None", inputs="data",
         infer=_infer_jitter, kernel=_jitter, vjp=_color_vjp, draws=1, outputs=1, image="random_color_jitter")

# -- lighting ------------------------------------------------------------------------------------------------------

# The principal components of the colours of ImageNet, as columns, times their standard deviations (Krizhevsky et al.
# 2012).
_COMPONENTS = numpy.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]) \
    * [55.46, 4.794, 1.148]


def _lit(xp, data, alpha):
    """The image with a shift of its colours: ``alpha`` of each component."""
    if data.shape[2] == 1:
        return data
    x = wide(xp, data)
    parts = (_COMPONENTS.astype("float32") * numpy.asarray(alpha, "float32")).T
    return _stored(xp, x + xp.asarray((parts[0] + parts[1] + parts[2]).astype(x.dtype)), data.dtype)


def _infer_adjust(data, alpha):
    check_image("adjust_lighting", data, batches=False)
    numbers("adjust_lighting", "alpha", alpha, 3)
    return data


def _infer_random_lighting(data, alpha_std):
    check_image("random_lighting", data, batches=False)
    number("random_lighting", "alpha_std", alpha_std)
    return data


operator("image_adjust_lighting", "data, alpha, out=None", inputs="data", infer=_infer_adjust, kernel=_lit,
         vjp=lambda F, dy, x, y, alpha: dy, image="adjust_lighting",
         doc="An image plus ``alpha`` (three numbers) times the principal components of the colours of ImageNet.")
operator("image_random_lighting", "data, alpha_std=0.05, out=None", inputs="data", infer=_infer_random_lighting,
         kernel=lambda xp, data, alpha_std, rng: _lit(xp, data, (rng.standard_normal(3) * alpha_std).tolist()),
         vjp=lambda F, dy, x, y, alpha_std: dy, draws=1, image="random_lighting",
         doc="``adjust_lighting`` with three normal numbers of standard deviation ``alpha_std``.")
