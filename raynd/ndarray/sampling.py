"""Functions of ``mx.npx`` and ``mx.nd`` over the operators of ``ops/sampling.py``: spatial transformers, up-sampling,
aligned regions, deformable convolution."""
from __future__ import annotations

import numpy

from ..dispatch import F, stage
from ..errors import ArgumentError, ShapeError
from ..ops.convolution import check_bias, out_sizes
from ..ops.windows import per_axis
from .legacy import give, need_array
from .neural import refuse, run


def _constant(values, like):
    """A NumPy array as an array of the kind, dtype and device of ``like``."""
    return stage(numpy.asarray(values, like._spec.dtype), like.device, type(like))


def bilinear_sampler(data, grid, cudnn_off=None, out=None, name=None):
    """(n, c, h, w) data at the points of ``grid`` (n, 2 (x, y), h', w'), where -1 and 1 are the first and last pixels;
    points outside give 0 (Jaderberg et al. 2015)."""
    need_array(data, "BilinearSampler"), need_array(grid, "BilinearSampler")
    if len(data.shape) != 4 or len(grid.shape) != 4 or grid.shape[:2] != (data.shape[0], 2):
        raise ShapeError("BilinearSampler: data must have shape (n, c, h, w) and grid (n, 2, h', w'), "
                         f"got {data.shape} and {grid.shape}")
    n, c, height, width = data.shape
    size = grid.shape[2:]
    points = F.reshape(grid, newshape=(n, 2, size[0] * size[1]))
    x = (points[:, 0] + 1) * ((width - 1) / 2)
    y = (points[:, 1] + 1) * ((height - 1) / 2)
    return give(F.reshape(F.bilinear_points(data, y, x), newshape=(n, c, *size)), out)


def spatial_transformer(data, loc, target_shape=(0, 0), transform_type="affine", sampler_type="bilinear",
                        cudnn_off=None, out=None, name=None):
    """``data`` sampled on the pixels of an image of ``target_shape`` (default: its own sizes) after the affine maps
    ``loc`` (n, 6)."""
    if transform_type != "affine" or sampler_type != "bilinear":
        raise ArgumentError("SpatialTransformer: transform_type must be 'affine' and sampler_type 'bilinear'")
    need_array(data, "SpatialTransformer")
    size = per_axis(target_shape, 2, 0, "target_shape", "SpatialTransformer")
    size = size if any(size) else data.shape[2:]
    grid = run("grid_generator", (loc,), transform_type="affine", target_shape=size)
    return bilinear_sampler(data, grid, out=out)


def up_sampling(*data, scale, num_filter=0, sample_type="nearest", multi_input_mode="concat", num_args=None,
                workspace=512, out=None, name=None):
    """(n, c, h, w) arrays enlarged ``scale`` times.

    'nearest': pixels are repeated; further arrays are enlarged to the same sizes and joined along the channels
    ('concat') or added ('sum'). 'bilinear': by a transposed convolution of each channel with the weight that is the
    second array (num_filter, 1, kernel, kernel), kernel = 2 * scale - scale % 2.
    """
    if not isinstance(scale, int) or scale < 1:
        raise ArgumentError(f"UpSampling: scale must be a positive integer, not {scale!r}")
    if not data or num_args not in (None, len(data)):
        raise ArgumentError("UpSampling needs at least one array" if not data else
                            f"UpSampling: num_args={num_args}, but there are {len(data)} arrays")
    for x in data:
        if len(need_array(x, "UpSampling").shape) != 4:
            raise ShapeError(f"UpSampling: arrays must have 4 axes, not shape {x.shape}")
    if sample_type == "bilinear":
        if len(data) != 2:
            raise ArgumentError("UpSampling: sample_type='bilinear' needs data and a weight")
        x, weight = data
        if num_filter not in (0, weight.shape[0]):
            raise ShapeError(f"UpSampling: num_filter={num_filter}, but the weight has shape {weight.shape}")
        kernel, pad = 2 * scale - scale % 2, -(-(scale - 1) // 2)
        return run("deconvolution", (x, weight, None), out, kernel=(kernel,) * 2, stride=(scale,) * 2, pad=(pad,) * 2,
                   num_filter=x.shape[1], num_group=x.shape[1], no_bias=True)
    if sample_type != "nearest":
        raise ArgumentError(f"UpSampling: sample_type must be 'nearest' or 'bilinear', not {sample_type!r}")
    height = data[0].shape[2] * scale
    parts = [F.nearest_upsampling(x, scale=height // x.shape[2] if x.shape[2] else scale) for x in data]
    if len(parts) == 1:
        return give(parts[0], out)
    if multi_input_mode == "sum":
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return give(total, out)
    if multi_input_mode != "concat":
        raise ArgumentError(f"UpSampling: multi_input_mode must be 'concat' or 'sum', not {multi_input_mode!r}")
    return give(F.concatenate(*parts, axis=1), out)


def bilinear_resize(data, like=None, height=1, width=1, scale_height=None, scale_width=None, mode="size",
                    align_corners=True, out=None, name=None):
    """(n, c, h, w) data resized by bilinear interpolation.

    ``mode``: 'size' (to height and width, or by scale_height and scale_width), 'like' (to the sizes of the array
    ``like``), 'odd_scale', 'to_even_down', 'to_even_up', 'to_odd_down', 'to_odd_up'.
    """
    if len(need_array(data, "BilinearResize2D").shape) != 4:
        raise ShapeError(f"BilinearResize2D: data must have 4 axes, not shape {data.shape}")
    h, w = data.shape[2:]
    by = None if scale_height is None and scale_width is None else (scale_height or 1.0, scale_width or 1.0)
    if mode == "like":
        size = need_array(like, "BilinearResize2D with mode='like'").shape[2:]
    elif mode == "size":
        size = (height, width) if by is None else (int(h * by[0]), int(w * by[1]))
    elif mode == "odd_scale":
        if by is None:
            raise ArgumentError("BilinearResize2D: mode='odd_scale' needs scale_height and scale_width")
        size = tuple(int(n * s) if n % 2 == 0 else int((n - 1) * s) + 1 for n, s in zip((h, w), by))
    elif mode in ("to_even_down", "to_even_up", "to_odd_down", "to_odd_up"):
        odd, step = "odd" in mode, -1 if "down" in mode else 1
        size = tuple(n if n % 2 == odd else n + step for n in (h, w))
    else:
        raise ArgumentError(f"BilinearResize2D: mode {mode!r} is not known")
    return give(F.bilinear_resize(data, height=size[0], width=size[1], align_corners=bool(align_corners)), out)


def deformable_convolution(data, offset, weight, bias=None, kernel=None, stride=(), dilate=(), pad=(), num_filter=None,
                           num_group=1, num_deformable_group=1, workspace=1024, no_bias=False, layout=None, out=None,
                           name=None, **kwargs):
    """A 2-D convolution whose windows read at positions moved by ``offset`` (n, deformable groups * taps * 2 (y, x),
    out height, out width) (Dai et al. 2017)."""
    refuse("deformable_convolution", kwargs)
    return _deformable(data, offset, None, weight, bias, kernel, stride, dilate, pad, num_filter, num_group,
                       num_deformable_group, no_bias, layout, out)


def modulated_deformable_convolution(data, offset, mask, weight, bias=None, kernel=None, stride=(), dilate=(), pad=(),
                                     num_filter=None, num_group=1, num_deformable_group=1, workspace=1024,
                                     no_bias=False, im2col_step=64, layout=None, out=None, name=None, **kwargs):
    """As :func:`deformable_convolution`, each value read multiplied by ``mask`` (n, deformable groups * taps, out
    height, out width) (Zhu et al. 2019)."""
    refuse("modulated_deformable_convolution", kwargs)
    return _deformable(data, offset, mask, weight, bias, kernel, stride, dilate, pad, num_filter, num_group,
                       num_deformable_group, no_bias, layout, out)


def _deformable(data, offset, mask, weight, bias, kernel, stride, dilate, pad, num_filter, groups, deformable, no_bias,
                layout, out):
    function = "deformable_convolution" if mask is None else "modulated_deformable_convolution"
    if layout not in (None, "NCHW"):
        raise ArgumentError(f"{function}: layout must be 'NCHW', not {layout!r}")
    needed = {"data": data, "offset": offset, "weight": weight, **({} if mask is None else {"mask": mask})}
    for name, x in needed.items():
        if len(need_array(x, f"{function}, {name}").shape) != 4:
            raise ShapeError(f"{function}: {name} must have 4 axes, not shape {x.shape}")
    kernel = per_axis(kernel, 2, 1, "kernel", function) if kernel else weight.shape[2:]
    stride = per_axis(stride, 2, 1, "stride", function)
    dilate = per_axis(dilate, 2, 1, "dilate", function)
    pad = per_axis(pad, 2, 0, "pad", function)
    n, c, height, width = data.shape
    if weight.shape[2:] != kernel or num_filter not in (None, weight.shape[0]):
        raise ShapeError(f"{function}: kernel={kernel}, num_filter={num_filter}, but weight has shape {weight.shape}")
    if bias is not None:
        need_array(bias, f"{function}, bias")
    check_bias(bias, no_bias, weight.shape[0], function)
    oh, ow = out_sizes((height, width), kernel, stride, dilate, pad, function)
    taps, places = kernel[0] * kernel[1], oh * ow
    for name, x, each in (("offset", offset, 2), ("mask", mask, 1)):
        needed = n, deformable * taps * each, oh, ow
        if x is not None and x.shape != needed:
            raise ShapeError(f"{function}: {name} has shape {x.shape}, needed is {needed}")
    if c % deformable or c % groups or weight.shape[0] % groups or weight.shape[1] != c // groups:
        raise ShapeError(f"{function}: data of shape {data.shape}, weight of shape {weight.shape}, {groups} groups and "
                         f"{deformable} deformable groups do not fit")
    ky, kx = numpy.divmod(numpy.arange(taps), kernel[1])
    py, px = numpy.divmod(numpy.arange(places), ow)
    base = [k[:, None] * d + p[None, :] * s - q for k, d, p, s, q in zip((ky, kx), dilate, (py, px), stride, pad)]
    moved = F.reshape(offset, newshape=(n * deformable, taps, 2, places))
    points = [F.reshape(moved[:, :, i] + _constant(base[i], data), newshape=(n * deformable, taps * places))
              for i in (0, 1)]
    planes = F.reshape(data, newshape=(n * deformable, c // deformable, height, width))
    columns = F.reshape(F.bilinear_points(planes, *points, inside=mask is None),
                        newshape=(n, deformable, c // deformable, taps, places))
    if mask is not None:
        columns = columns * F.reshape(mask, newshape=(n, deformable, 1, taps, places))
    columns = F.reshape(columns, newshape=(n, groups, c // groups * taps, places))
    filters = F.reshape(weight, newshape=(groups, weight.shape[0] // groups, c // groups * taps))
    y = F.reshape(F.matmul(filters, columns), newshape=(n, weight.shape[0], oh, ow))
    if not no_bias:
        y = y + F.reshape(bias, newshape=(1, -1, 1, 1))
    return give(y, out)


NPX_FUNCTIONS = {"deformable_convolution": deformable_convolution,
                 "modulated_deformable_convolution": modulated_deformable_convolution}
ND_FUNCTIONS = {"BilinearSampler": bilinear_sampler, "SpatialTransformer": spatial_transformer,
                "UpSampling": up_sampling}
CONTRIB_FUNCTIONS = {"BilinearResize2D": bilinear_resize, "DeformableConvolution": deformable_convolution,
                     "ModulatedDeformableConvolution": modulated_deformable_convolution}
