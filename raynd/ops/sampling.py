"""Sampling images at real-valued points, of which spatial transformers and deformable convolution are made; the grids
of such points; resizing.

One operator, ``bilinear_points``, interpolates (n, c, h, w) data at points (n, p) and is differentiable in data and
points.
"""
from __future__ import annotations

import itertools

from ..errors import ArgumentError, ShapeError
from ..spec import spec
from .parallel import run_chunks
from .registry import check_float, operator
from .softmax import wide
from .special import csr_matrix
from .windows import per_axis

# -- bilinear interpolation ----------------------------------------------------------------------------------------


def _infer_points(data, y, x, inside):
    if len(data.shape) != 4 or y.shape != x.shape or len(y.shape) != 2 or y.shape[0] != data.shape[0]:
        raise ShapeError(f"bilinear interpolation: data of shape {data.shape} and points of shape {y.shape}, {x.shape}")
    check_float("bilinear interpolation", data)
    return spec((*data.shape[:2], y.shape[1]), data.dtype)


def _corners(xp, y, x, height, width, inside):
    """For the four neighbours of each point: (place in the flat plane, weight, its derivatives by y and x); neighbours
    outside the image weigh nothing. ``inside``: see ``bilinear_points``."""
    if inside:
        valid = ((y >= 0) & (y < height) & (x >= 0) & (x < width)).astype(y.dtype)
        free_y, free_x = valid * (y < height - 1), valid * (x < width - 1)
        y, x = xp.clip(y, 0, height - 1), xp.clip(x, 0, width - 1)
        for places, weight, by_y, by_x in _corners(xp, y, x, height, width, False):
            yield places, weight * valid, by_y * free_y, by_x * free_x
        return
    y0, x0 = xp.floor(y), xp.floor(x)
    fy, fx = y - y0, x - x0
    for dy, dx in itertools.product((0, 1), (0, 1)):
        py, px = y0.astype("int64") + dy, x0.astype("int64") + dx
        here = ((py >= 0) & (py < height) & (px >= 0) & (px < width)).astype(y.dtype)
        wy, wx = (fy if dy else 1 - fy), (fx if dx else 1 - fx)
        places = xp.clip(py, 0, height - 1) * width + xp.clip(px, 0, width - 1)
        yield places, wy * wx * here, (1 if dy else -1) * wx * here, (1 if dx else -1) * wy * here


class _Points:
    """Interpolation at points (n, p) as products of sparse matrices, whose rows are the points and whose columns the
    pixels of all images, with the pixels' channels. Images are taken in chunks, of ``chunks``."""

    def __init__(self, xp, shape, y, x, inside):
        self.xp, self.shape, self.y, self.x, self.inside = xp, shape, y, x, inside
        n, c, height, width = shape
        step = max(1, _CHUNK // max(1, height * width * c, y.shape[1] * c))
        self.chunks = [(i, min(i + step, n)) for i in range(0, n, step)]

    def rows(self, a):
        """The channels of (images, c, ...) at each place as rows."""
        a = a.reshape(*a.shape[:2], -1).transpose(0, 2, 1)
        return self.xp.ascontiguousarray(a).reshape(-1, self.shape[1])

    def matrices(self, first, last, dtype):
        """Of the weights and of their derivatives by y and x: (points, pixels) of the images of a chunk."""
        xp, (_, _, height, width) = self.xp, self.shape
        y, x = self.y[first:last], self.x[first:last]
        corners = zip(*_corners(xp, y, x, height, width, self.inside))
        column, *weights = [xp.stack(part, axis=-1) for part in corners]
        column += (xp.arange(last - first) * (height * width))[:, None, None]
        bounds = xp.arange(0, column.size + 1, 4)
        for weight in weights:
            yield csr_matrix(xp, weight.reshape(-1).astype(dtype, copy=False), column.reshape(-1), bounds,
                             (y.size, (last - first) * height * width))


_CHUNK = 1 << 19                               # elements of the channels of a chunk's pixels or points


def _bilinear_points(xp, data, y, x, inside):
    """The values of (n, c, h, w) data at points (n, p), between pixels interpolated: (n, c, p).

    Outside the image there are zeros, towards which border pixels fade; with ``inside`` border pixels reach up to the
    image's end, and a point outside is 0."""
    data, y, x = wide(xp, data), wide(xp, y), wide(xp, x)
    n, c = data.shape[:2]
    result = xp.zeros((n, c, y.shape[1]), data.dtype)
    if not data.size or not y.size:
        return result
    at = _Points(xp, data.shape, y, x, inside)

    def interpolate(first, last):
        weights = next(at.matrices(first, last, data.dtype))
        values = (weights @ at.rows(data[first:last])).reshape(last - first, -1, c)
        result[first:last] = values.transpose(0, 2, 1)
    run_chunks(xp, at.chunks, lambda: interpolate)
    return result


def _bilinear_points_grad(xp, dy, data, y, x, inside):
    dy, data, y, x = (wide(xp, a) for a in (dy, data, y, x))
    n, c = data.shape[:2]
    g_data, gy, gx = (xp.zeros(a.shape, data.dtype) for a in (data, y, x))
    if not data.size or not y.size:
        return g_data, gy, gx
    at = _Points(xp, data.shape, y, x, inside)
    flat = g_data.reshape(n, c, -1)

    def spread(first, last):
        weights, by_y, by_x = at.matrices(first, last, data.dtype)
        pixels, points = at.rows(data[first:last]), at.rows(dy[first:last])
        flat[first:last] = (weights.T @ points).reshape(last - first, -1, c).transpose(0, 2, 1)
        gy[first:last] = xp.einsum("pc,pc->p", by_y @ pixels, points).reshape(last - first, -1)
        gx[first:last] = xp.einsum("pc,pc->p", by_x @ pixels, points).reshape(last - first, -1)
    run_chunks(xp, at.chunks, lambda: spread)
    return g_data, gy, gx


operator("bilinear_points", "data, y, x, inside=False", inputs="data, y, x", infer=_infer_points,
         kernel=_bilinear_points, first_order_only=True,
         vjp=lambda F, dy, x, y, inside: F.bilinear_points_grad(dy, *x, inside=inside))
operator("bilinear_points_grad", "dy, data, y, x, inside", inputs="dy, data, y, x",
         infer=lambda dy, data, y, x, inside: (data, y, x),
         kernel=_bilinear_points_grad, first_order_only=True)

# -- grids ---------------------------------------------------------------------------------------------------------


def _grid_shape(transform_type, target_shape, data, function="GridGenerator"):
    if transform_type not in ("affine", "warp"):
        raise ArgumentError(f"{function}: transform_type must be 'affine' or 'warp', not {transform_type!r}")
    if transform_type == "warp":
        if len(data) != 4 or data[1] != 2:
            raise ShapeError(f"{function}: a flow must have shape (n, 2, height, width), not {data}")
        return data[2:]
    size = per_axis(target_shape, 2, 0, "target_shape", function)
    if len(data) != 2 or data[1] != 6 or min(size) < 1:
        raise ShapeError(f"{function}: affine parameters must have shape (n, 6), not {data}, and target_shape two "
                         f"positive sizes, not {target_shape}")
    return size


def base_grid(xp, height, width, dtype):
    """x and y of the pixels of an image, each from -1 to 1: (2, height * width)."""
    x = xp.linspace(-1, 1, width, dtype=dtype) if width > 1 else xp.full(1, -1, dtype)
    y = xp.linspace(-1, 1, height, dtype=dtype) if height > 1 else xp.full(1, -1, dtype)
    return xp.stack([xp.tile(x, height), xp.repeat(y, width)])


def _grid(xp, data, transform_type, target_shape):
    """Sampling points (n, 2 (x, y), height, width), in [-1, 1] within an image.

    'affine': the pixels of an image of ``target_shape`` transformed by rows of 6 parameters (2 by 3 matrices); 'warp':
    the pixels moved by a flow (n, 2, height, width) in pixels.
    """
    height, width = _grid_shape(transform_type, target_shape, data.shape)
    x = wide(xp, data)
    if transform_type == "affine":
        base = base_grid(xp, height, width, x.dtype)
        homogeneous = xp.concatenate([base, xp.ones((1, base.shape[1]), x.dtype)])
        return xp.matmul(x.reshape(-1, 2, 3), homogeneous).reshape(-1, 2, height, width)
    pixels = xp.stack(xp.broadcast_arrays(xp.arange(width)[None, :], xp.arange(height)[:, None])).astype(x.dtype)
    scale = xp.asarray([max(width - 1, 1), max(height - 1, 1)], x.dtype).reshape(2, 1, 1) / 2
    return (x + pixels) / scale - 1


def _grid_grad(xp, dy, transform_type, shape):
    dy = wide(xp, dy)
    n, _, height, width = dy.shape
    if transform_type == "affine":
        base = base_grid(xp, height, width, dy.dtype)
        homogeneous = xp.concatenate([base, xp.ones((1, base.shape[1]), dy.dtype)])
        return xp.matmul(dy.reshape(n, 2, height * width), homogeneous.T).reshape(shape)
    scale = xp.asarray([max(width - 1, 1), max(height - 1, 1)], dy.dtype).reshape(2, 1, 1) / 2
    return dy / scale


operator("grid_generator", "data, transform_type, target_shape=(0, 0), out=None", inputs="data", nd="GridGenerator",
         infer=lambda data, transform_type, target_shape: spec(
             (data.shape[0], 2, *_grid_shape(transform_type, target_shape, data.shape)), data.dtype),
         kernel=_grid, vjp=lambda F, dy, x, y, transform_type, target_shape: F.grid_generator_grad(
             dy, transform_type=transform_type, shape=x[0].shape))
operator("grid_generator_grad", "dy, transform_type, shape", inputs="dy", kernel=_grid_grad, first_order_only=True,
         infer=lambda dy, transform_type, shape: spec(shape, dy.dtype))

# -- resizing ------------------------------------------------------------------------------------------------------


def interpolation_matrix(xp, n, out, dtype, corners):
    """(out, n): row i interpolates sample i of ``out`` over ``n``; with ``corners`` the ends coincide, else sample
    centres are at (i + 1/2) n / out - 1/2."""
    if corners:
        at = xp.arange(out, dtype="float64") * ((n - 1) / (out - 1) if out > 1 else 0)
    else:
        at = xp.clip((xp.arange(out) + 0.5) * (n / out) - 0.5, 0, n - 1)
    low = xp.minimum(xp.floor(at).astype("int64"), n - 1)
    high = xp.minimum(low + 1, n - 1)
    result = xp.zeros((out, n), "float64")
    rows = xp.arange(out)
    result[rows, low] += 1 - (at - low)
    result[rows, high] += at - low
    return result.astype(dtype)


def _infer_resize(data, height, width, align_corners):
    check_float("bilinear_resize", data)
    if len(data.shape) != 4 or 0 in data.shape[2:] or height < 1 or width < 1:
        raise ShapeError(f"bilinear_resize: data must have 4 axes and all sizes be positive, got {data.shape}, "
                         f"{height} and {width}")
    return spec((*data.shape[:2], height, width), data.dtype)


def _resize(xp, data, height, width, align_corners):
    """(n, c, h, w) data resized to (n, c, height, width) by bilinear interpolation."""
    x = wide(xp, data)
    return xp.matmul(xp.matmul(interpolation_matrix(xp, x.shape[2], height, x.dtype, align_corners), x),
                     interpolation_matrix(xp, x.shape[3], width, x.dtype, align_corners).T)


def _resize_grad(xp, dy, shape, align_corners):
    dy = wide(xp, dy)
    return xp.matmul(xp.matmul(interpolation_matrix(xp, shape[2], dy.shape[2], dy.dtype, align_corners).T, dy),
                     interpolation_matrix(xp, shape[3], dy.shape[3], dy.dtype, align_corners))


operator("bilinear_resize", "data, height, width, align_corners=True", inputs="data", infer=_infer_resize,
         kernel=_resize, vjp=lambda F, dy, x, y, height, width, align_corners: F.bilinear_resize_grad(
             dy, shape=x[0].shape, align_corners=align_corners))
operator("bilinear_resize_grad", "dy, shape, align_corners", inputs="dy", kernel=_resize_grad,
         infer=lambda dy, shape, align_corners: spec(shape, dy.dtype),
         vjp=lambda F, g, x, y, shape, align_corners: F.bilinear_resize(
             g, height=x[0].shape[2], width=x[0].shape[3], align_corners=align_corners))


def _nearest(xp, data, scale):
    """Every pixel of (n, c, h, w) repeated ``scale`` times along both axes."""
    return xp.repeat(xp.repeat(data, scale, axis=2), scale, axis=3)


operator("nearest_upsampling", "data, scale", inputs="data", kernel=_nearest,
         infer=lambda data, scale: spec((*data.shape[:2], data.shape[2] * scale, data.shape[3] * scale), data.dtype),
         vjp=lambda F, dy, x, y, scale: F.pooling(dy, kernel=(scale, scale), stride=(scale, scale), pool_type="sum"))
