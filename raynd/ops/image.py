"""Images as arrays (height, width, channels) or batches (n, height, width, channels): conversion to tensors,
normalization, flips, crops. Their resizing is in ``image_resize``, random crops in ``image_crop``, colours in
``image_color``."""
from __future__ import annotations

import numpy

from ..errors import ArgumentError, ShapeError
from ..spec import ArraySpec, spec
from .registry import operator
from .softmax import wide

CHANNELS = (1, 3)


def check_image(function, data, batches=True, channels=CHANNELS):
    """(height, width) of an image's spec, if it is one; else raise. ``batches``: whether (n, height, width, channels)
    is accepted. ``channels``: the numbers of channels accepted, None for any."""
    shapes = "(height, width, channels)" + (" or (n, height, width, channels)" if batches else "")
    if not isinstance(data, ArraySpec) or data.ndim != 3 and not (batches and data.ndim == 4):
        raise ShapeError(f"{function}: an image must have shape {shapes}, not {getattr(data, 'shape', ())}")
    if channels is not None and data.shape[-1] not in channels:
        raise ShapeError(f"{function}: the last axis of an image is its channels, of which there must be "
                         f"{' or '.join(map(str, channels))}; the shape is {data.shape}")
    refuse_bool(function, data)
    return data.shape[-3], data.shape[-2]


def refuse_bool(function, data):
    """Raise for bools, which are no colours."""
    if data.dtype.kind == "b":
        raise ArgumentError(f"{function} does not take bools; use astype('uint8')")


def positive_int(function, name, value):
    """``value``, if it is a positive integer; else raise."""
    if type(value) is not int:
        raise ArgumentError(f"{function}: {name} must be an integer, not {value!r}")
    if value < 1:
        raise ShapeError(f"{function}: {name} must be greater than 0, not {value}")
    return value


def number(function, name, value):
    """``value``, if it is a number; else raise."""
    if type(value) not in (int, float):
        raise ArgumentError(f"{function}: {name} must be a number, not {value!r}")
    return value


def numbers(function, name, value, *counts):
    """``value``, if it is a tuple of numbers, of one of the lengths ``counts``; else raise."""
    if type(value) is not tuple or not all(type(v) in (int, float) for v in value):
        raise ArgumentError(f"{function}: {name} must be numbers, not {value!r}")
    if len(value) not in counts:
        raise ShapeError(f"{function}: {name} must have {' or '.join(map(str, counts))} numbers, not {value!r}")
    return value


# -- tensors -------------------------------------------------------------------------------------------------------


def _infer_to_tensor(data):
    check_image("to_tensor", data, channels=None)
    *batch, height, width, channels = data.shape
    return spec((*batch, channels, height, width), "float32")


def _channels_first(xp, data):
    return xp.ascontiguousarray(xp.moveaxis(data, -1, -3))


def _to_tensor(xp, data):
    """Images with values in [0, 255] as float32 tensors with values in [0, 1] and the channels first: (channels,
    height, width) or (n, channels, height, width)."""
    return xp.divide(_channels_first(xp, wide(xp, data)), 255, dtype="float32" if data.dtype != "float64" else None)


def _to_tensor_vjp(F, dy, x, y):
    axes = (1, 2, 0) if len(dy.shape) == 3 else (0, 2, 3, 1)
    return F.transpose(dy, axes=axes) / 255.0


operator("image_to_tensor", "data, out=None", infer=_infer_to_tensor, kernel=_to_tensor, vjp=_to_tensor_vjp,
         image="to_tensor")

_NONE = (0.0, 0.0, 0.0, 0.0), (1.0, 1.0, 1.0, 1.0)      # MXNet's defaults, with a number for a fourth channel


def _infer_normalize(data, mean, std):
    if not isinstance(data, ArraySpec) or data.ndim not in (3, 4):
        raise ShapeError("normalize: a tensor must have shape (channels, height, width) or (n, channels, height, "
                         f"width), not {getattr(data, 'shape', ())}")
    channels = data.shape[-3]
    if channels not in CHANNELS:
        raise ShapeError(f"normalize: axis {data.ndim - 3} of a tensor is its channels, of which there must be 1 or 3; "
                         f"the shape is {data.shape}")
    refuse_bool("normalize", data)
    for name, value, default in zip(("mean", "std"), (mean, std), _NONE):
        if value != default:
            numbers("normalize", name, value if type(value) is tuple else (value,), *sorted({1, channels}))
    return data


def _per_channel(xp, value, channels, dtype):
    """Numbers of the channels, or one of all, as an array that broadcasts with a tensor."""
    values = value[:channels] if type(value) is tuple else (value,)
    return xp.asarray(values, dtype=dtype)[:, None, None]


def truncated(xp, values, dtype):
    """Computed values as ``dtype``: for integers cut off at the decimal point, as in C, and wrapped around beyond its
    range."""
    return values if dtype.kind not in "iu" else values.astype("int64").astype(dtype)


def _normalize(xp, data, mean, std):
    """Tensors (channels, height, width) or (n, channels, height, width) less ``mean``, divided by ``std``: one number,
    or one for each channel."""
    x = wide(xp, data)
    mean, std = (_per_channel(xp, v, data.shape[-3], x.dtype) for v in (mean, std))
    with numpy.errstate(all="ignore"):
        return truncated(xp, (x - mean) / std, data.dtype)


operator("image_normalize", f"data, mean={_NONE[0]}, std={_NONE[1]}, out=None", infer=_infer_normalize,
         kernel=_normalize, image="normalize", inputs="data",
         vjp=lambda F, dy, x, y, mean, std: F.image_normalize(dy, mean=0.0, std=std))

# -- flips ---------------------------------------------------------------------------------------------------------


def _flip(name, axis, doc):
    """The records of a flip along ``axis`` and of the random one. Which it was is the random one's second output."""
    def infer(data):
        check_image(f"flip_{name}", data, batches=False)
        return data

    def infer_random(data, p):
        check_image(f"random_flip_{name}", data, batches=False)
        number(f"random_flip_{name}", "p", p)
        return data, spec((), "bool")

    def flip(xp, data):
        return xp.flip(data, axis)

    def flip_if(xp, data, flag):
        return xp.where(flag, flip(xp, data), data)

    def random_flip(xp, data, p, rng):
        flag = rng.random(1)[0] < p
        return flip_if(xp, data, flag), flag

    def random_vjp(F, dy, x, y, p):
        return None if dy[0] is None else getattr(F, f"image_flip_{name}_if")(dy[0], y[1])

    operator(f"image_flip_{name}", "data, out=None", infer=infer, kernel=flip, image=f"flip_{name}", doc=doc,
             vjp=lambda F, dy, x, y: getattr(F, f"image_flip_{name}")(dy))
    operator(f"image_flip_{name}_if", "data, flag", infer=lambda data, flag: data, kernel=flip_if,
             vjp=lambda F, dy, x, y: (getattr(F, f"image_flip_{name}_if")(dy, x[1]), None))
    operator(f"image_random_flip_{name}", "data, p=0.5, out=None", infer=infer_random, kernel=random_flip,
             image=f"random_flip_{name}", draws=1, outputs=1, vjp=random_vjp, doc=f"{doc} With probability ``p``.")


_flip("left_right", 1, "An image (height, width, channels) with its columns in reverse order.")
_flip("top_bottom", 0, "An image (height, width, channels) with its rows in reverse order.")

# -- crops ---------------------------------------------------------------------------------------------------------


def _infer_crop(data, x, y, width, height):
    rows, columns = check_image("crop", data)
    for name, start, size, end in (("x", x, width, columns), ("y", y, height, rows)):
        side = "width" if name == "x" else "height"
        positive_int("crop", side, size)
        if type(start) is not int:
            raise ArgumentError(f"crop: {name} must be an integer, not {start!r}")
        if start < 0 or start + size > end:
            raise ShapeError(f"crop: the part from {name}={start} on of {side} {size} does not lie within the image, "
                             f"whose {side} is {end}")
    return spec((*data.shape[:-3], height, width, data.shape[-1]), data.dtype)


def _crop(xp, data, x, y, width, height):
    """The part of images that begins in column ``x`` and row ``y``: (height, width, channels), or (n, height, width,
    channels)."""
    return data[..., y:y + height, x:x + width, :]


def _crop_vjp(F, dy, inputs, outputs, /, *, x, y, width, height):
    whole = (None, None, None)
    items = (*(whole,) * (len(dy.shape) - 3), (y, y + height, None), (x, x + width, None), whole)
    return F.basic_index_grad(dy, items=items, shape=inputs[0].shape)


operator("image_crop", "data, x, y, width, height, out=None", inputs="data", infer=_infer_crop, kernel=_crop,
         vjp=_crop_vjp, image="crop")
