"""The reference kernels of convolution: matrix products over shifted flat planes.

A sample's padded planes are laid out flat, row after row. Where the stride is 1, the window tap (i, j) of every output
position at once is then the *same* array read from another offset, so a convolution is a sum over taps of plain matrix
products ``w[:, :, i, j] @ plane[:, offset:offset + length]`` whose operands are views: nothing is copied per tap. The
products also compute positions that straddle two rows; these few are dropped at the end. A stride s > 1 splits the
planes into s phases per axis, each with stride 1. When there are too few input channels for an efficient product, the
taps are copied below each other (im2col, in the same flat layout, so by long contiguous copies) and one product does.
Groups are an axis of the products; groups of one channel each (a depthwise convolution) are multiplied element-wise.

The gradients have the same form: that of the data reads shifted planes of dy, and that of the weights multiplies dy
planes with shifted planes of x. Work proceeds in chunks of samples that fit the cache, and buffers are bounded by that.
"""
from __future__ import annotations

import itertools
import math

from . import convolution_windows as windows
from .parallel import run_chunks

CHUNK_BYTES = 1 << 20               # working set of a chunk: about half of a core's second-level cache
SMALL_CHANNELS = 24                 # up to this many channels summed over, the taps are stacked


def stacks(summed, kept, taps, groups):
    """Whether to copy the taps below each other: when a tap's product sums over few channels, unless there are so few
    outputs that adding up the products costs less than the copies."""
    return taps > 1 and summed <= min(SMALL_CHANNELS, 4 * kept) and not (groups > 1 and summed == kept == 1)


class Plan:
    """The flat layout for given sizes: phases, taps, pitches."""

    def __init__(self, sizes, kernel, stride, dilate, pad, out):
        self.sizes, self.stride, self.pad, self.out = sizes, stride, pad, out
        n = len(sizes)
        positions = list(itertools.product(*[range(k) for k in kernel]))
        at = [tuple(i * d for i, d in zip(tap, dilate)) for tap in positions]
        self.reach = tuple(max((a[k] // stride[k] for a in at), default=0) for k in range(n))
        phases = [tuple(a[k] % stride[k] for k in range(n)) for a in at]
        self.phases = sorted(set(phases))
        self.tap_phase = [self.phases.index(p) for p in phases]
        self.tap_shift = [tuple(a[k] // stride[k] for k in range(n)) for a in at]

    def pitches(self, rows, shared):
        """(sizes of a plane's axes, their strides, elements past the end that reads may touch) for planes of ``rows``,
        where the zeros after a row are those before the next (``shared`` of them on each inner axis)."""
        sizes = [rows[0]] + [r - s for r, s in zip(rows[1:], shared[1:])]
        strides = [math.prod(sizes[k + 1:]) for k in range(len(sizes))]
        return sizes, strides, sum(s * t for s, t in zip(shared[1:], strides[1:]))


def _chunks(batch, per_sample, itemsize):
    """Slices of the batch whose working sets fit the cache."""
    step = max(1, CHUNK_BYTES // max(per_sample * itemsize, 1))
    for start in range(0, batch, step):
        yield start, min(start + step, batch)


def _blocks(groups, per_group, itemsize):
    """(slices of the groups that are worked on together, the longest of them): so many that a sample of them fits."""
    size = max(1, min(groups, CHUNK_BYTES // max(per_group * itemsize, 1)))
    return [slice(g, min(g + size, groups)) for g in range(0, groups, size)], size


def _product(xp, a, b, out):
    """The matrix product; element-wise where a matrix of ``a`` is one number."""
    return xp.multiply(a, b, out=out) if a.shape[-2:] == (1, 1) else xp.matmul(a, b, out=out)


class _Reader:
    """The phase planes of a chunk of x, flat and padded: ``taps`` are (phase, offset) in kernel order."""

    def __init__(self, xp, plan, channels, chunk, dtype):
        self.xp, self.plan = xp, plan
        unit = all(s == 1 for s in plan.stride)
        rows = [o + m for o, m in zip(plan.out, plan.reach)]
        shared = [min(p, m) if unit else 0 for p, m in zip(plan.pad, plan.reach)]
        self.sizes, self.strides, tail = plan.pitches(rows, shared)
        self.count = math.prod(self.sizes)
        self.length = sum((o - 1) * s for o, s in zip(plan.out, self.strides)) + 1
        self.row_length = plan.out[0] * self.strides[0]
        self.taps = [(p, sum(a * s for a, s in zip(shift, self.strides)))
                     for p, shift in zip(plan.tap_phase, plan.tap_shift)]
        reach = self.length + max((t for _, t in self.taps), default=0)
        self.buffer = xp.zeros((chunk, len(plan.phases), channels, max(self.count + tail, reach)), dtype)
        self.places = [self.place(phase) for phase in plan.phases]

    def place(self, phase):
        """(where in a plane, which part of x) the elements of a phase stand."""
        target, source = [], []
        for f, s, p, n, size in zip(phase, self.plan.stride, self.plan.pad, self.plan.sizes, self.sizes):
            first = max(0, -((f - p) // s))          # the first row whose coordinate f + s * row - p is in x
            stop = max(first, min(size, (n - 1 + p - f) // s + 1))
            start = f + s * first - p
            target.append(slice(first, stop))
            source.append(slice(start, start + (stop - first - 1) * s + 1 if stop > first else start, s))
        return tuple(target), tuple(source)

    def load(self, x):
        """Fill the planes with samples ``x``; the zeros around them stay."""
        planes = self.buffer[:x.shape[0], :, :, :self.count].reshape(
            x.shape[0], len(self.places), x.shape[1], *self.sizes)
        for i, (target, source) in enumerate(self.places):
            planes[(slice(None), i, slice(None), *target)] = x[(slice(None), slice(None), *source)]
        return self.buffer[:x.shape[0]]

    def read(self, planes, tap, groups):
        """The (samples, groups, channels of a group, length) view that holds a tap of every output position."""
        phase, offset = self.taps[tap]
        view = planes[:, phase, :, offset:offset + self.length]
        return view.reshape(view.shape[0], groups, -1, self.length)

    def rows(self, flat):
        """A flat (..., row_length) array as (..., *out), a view."""
        grid = flat.reshape(*flat.shape[:-1], self.plan.out[0], *self.sizes[1:])
        return grid[(..., slice(None), *[slice(0, o) for o in self.plan.out[1:]])]

    def stack(self, planes, columns, groups, block):
        """Copy the taps of a block of groups below each other: (samples, groups, taps * channels, length)."""
        c = columns.shape[2] // len(self.taps)
        columns = columns[:planes.shape[0], :block.stop - block.start]
        for t in range(len(self.taps)):
            columns[:, :, t * c:(t + 1) * c] = self.read(planes, t, groups)[:, block]
        return columns


def _work_dtype(xp, *arrays):
    """float32 for 16-bit floats where NumPy computes, which has no fast products of them."""
    dtype = xp.result_type(*[a.dtype for a in arrays]) if all(a.dtype.kind == "f" for a in arrays) else \
        xp.dtype("float32")
    return xp.dtype("float32") if dtype.itemsize == 2 and xp.__name__ == "numpy" else dtype


def conv(xp, x, w, stride, dilate, pad, groups):
    """x (N, C, sizes...), w (O, C / groups, kernel...): the cross-correlation (N, O, out...)."""
    dtype = _work_dtype(xp, x, w)
    out = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1
                for n, p, d, k, s in zip(x.shape[2:], pad, dilate, w.shape[2:], stride))
    y = xp.empty((x.shape[0], w.shape[0], *out), dtype)
    if not y.size:
        return y
    if not x.shape[1] or not math.prod(w.shape[2:]):
        y[...] = 0
        return y
    if windows.fewer_positions(out, w.shape[2:]):
        return windows.conv(xp, x, w, out, stride, dilate, pad, groups, dtype)
    plan = Plan(x.shape[2:], w.shape[2:], stride, dilate, pad, out)
    taps = len(plan.tap_phase)
    o, c = w.shape[0] // groups, w.shape[1]
    weights = xp.ascontiguousarray(w.reshape(groups, o, c, taps).transpose(0, 3, 1, 2), dtype)   # (groups, taps, o, c)
    stacked = stacks(c, o, taps, groups)
    probe = _Reader(xp, plan, 0, 0, dtype)
    per_group = 2 * o * probe.row_length + (taps * c * probe.length if stacked else 0)
    blocks, together = _blocks(groups, per_group, dtype.itemsize)
    per_sample = len(plan.phases) * x.shape[1] * probe.count + together * per_group
    bounds = list(_chunks(x.shape[0], per_sample, dtype.itemsize))
    chunk = bounds[0][1]
    if stacked:
        weights = xp.ascontiguousarray(weights.transpose(0, 2, 1, 3)).reshape(groups, o, taps * c)
    results = y.reshape(y.shape[0], groups, o, *out)

    def worker():
        reader = _Reader(xp, plan, x.shape[1], chunk, dtype)
        total = xp.empty((chunk, together, o, reader.row_length), dtype)
        scratch = None if stacked else xp.empty((chunk, together, o, reader.length), dtype)
        columns = xp.empty((chunk, together, taps * c, reader.length), dtype) if stacked else None

        def run(start, stop):
            planes = reader.load(x[start:stop])
            for block in blocks:
                part = slice(0, stop - start), slice(0, block.stop - block.start)
                acc = total[part][..., :reader.length]
                if stacked:
                    xp.matmul(weights[block], reader.stack(planes, columns, groups, block), out=acc)
                else:
                    for t in range(taps):
                        view = reader.read(planes, t, groups)[:, block]
                        _product(xp, weights[block, t], view, scratch[part] if t else acc)
                        if t:
                            acc += scratch[part]
                results[start:stop, block] = reader.rows(total[part])
        return run
    run_chunks(xp, bounds, worker)
    return y


def conv_weight_grad(xp, dy, x, kernel, stride, dilate, pad, groups):
    """dy (N, O, out...), x (N, C, sizes...): the gradient (O, C / groups, kernel...) of the weights."""
    dtype = _work_dtype(xp, dy, x)
    o, c, taps = dy.shape[1] // groups, x.shape[1] // groups, math.prod(kernel)
    if not dy.size or not x.size or not taps:
        return xp.zeros((dy.shape[1], c, *kernel), dtype)
    if windows.fewer_positions(dy.shape[2:], kernel):
        return windows.weight_grad(xp, dy, x, kernel, stride, dilate, pad, groups, dtype)
    plan = Plan(x.shape[2:], kernel, stride, dilate, pad, dy.shape[2:])
    stacked = stacks(c, o, taps, groups)
    probe = _Reader(xp, plan, 0, 0, dtype)
    per_group = taps * c * probe.length if stacked else 0
    blocks, together = _blocks(groups, per_group, dtype.itemsize)
    per_sample = len(plan.phases) * x.shape[1] * probe.count + dy.shape[1] * probe.row_length + together * per_group
    bounds = list(_chunks(x.shape[0], per_sample, dtype.itemsize))
    chunk = bounds[0][1]
    heads = dy.reshape(dy.shape[0], groups, o, *dy.shape[2:])

    def worker():
        reader = _Reader(xp, plan, x.shape[1], chunk, dtype)
        flat = xp.zeros((chunk, groups, o, reader.row_length), dtype)
        columns = xp.empty((chunk, together, taps * c, reader.length), dtype) if stacked else None
        total = xp.zeros((groups, taps, o, c) if not stacked else (groups, o, taps * c), dtype)

        def run(start, stop):
            planes = reader.load(x[start:stop])
            m = stop - start
            reader.rows(flat[:m])[...] = heads[start:stop]
            for block in blocks:
                rows = flat[:m, block, :, :reader.length]
                if stacked:
                    total[block] += _summed(xp, rows, reader.stack(planes, columns, groups, block))
                else:
                    for t in range(taps):
                        total[block, t] += _summed(xp, rows, reader.read(planes, t, groups)[:, block])
        run.total = total
        return run
    total = sum(run.total for run in run_chunks(xp, bounds, worker))
    if stacked:
        total = total.reshape(groups, o, taps, c).transpose(0, 2, 1, 3)
    result = xp.empty((groups, o, c, taps), dtype)
    result[...] = total.transpose(0, 2, 3, 1)
    return result.reshape(dy.shape[1], c, *kernel).copy()


def _summed(xp, a, b):
    """``a`` (samples, groups, o, length), ``b`` (samples, groups, c, length): a b^T (groups, o, c), summed."""
    if a.shape[2] == b.shape[2] == 1:
        return xp.einsum("mgl,mgl->g", a[:, :, 0], b[:, :, 0])[:, None, None]
    return xp.matmul(a, b.swapaxes(2, 3)).sum(axis=0)


def conv_data_grad(xp, dy, w, sizes, stride, dilate, pad, groups):
    """dy (N, O, out...), w (O, C / groups, kernel...): the gradient (N, C, sizes...) of the data."""
    dtype = _work_dtype(xp, dy, w)
    o, c = w.shape[0] // groups, w.shape[1]
    taps = math.prod(w.shape[2:])
    dx = xp.empty((dy.shape[0], c * groups, *sizes), dtype)
    if not dx.size:
        return dx
    if not dy.size or not taps:
        dx[...] = 0
        return dx
    if windows.fewer_positions(dy.shape[2:], w.shape[2:]):
        return windows.data_grad(xp, dy, w, sizes, stride, dilate, pad, groups, dtype)
    plan = Plan(sizes, w.shape[2:], stride, dilate, pad, dy.shape[2:])
    # planes of dy with zeros around them, so that reading them shifted backwards gives zeros outside
    rows = [n + m for n, m in zip(plan.out, plan.reach)]           # a phase plane of dx
    strides = [math.prod(rows[k + 1:]) for k in range(len(rows))]
    length = math.prod(rows)
    offsets = [sum((m - a) * s for m, a, s in zip(plan.reach, shift, strides)) for shift in plan.tap_shift]
    front = sum(m * s for m, s in zip(plan.reach, strides))
    size = max(length + max(offsets), front + length)
    members = [[t for t in range(taps) if plan.tap_phase[t] == p] for p in range(len(plan.phases))]
    weights = xp.ascontiguousarray(w.reshape(groups, o, c, taps).transpose(0, 3, 2, 1), dtype)   # (groups, taps, c, o)
    stacked = stacks(o, c, taps, groups)
    most = max(len(m) for m in members)
    per_group = 2 * c * length + (most * o * length if stacked else 0)
    blocks, together = _blocks(groups, per_group, dtype.itemsize)
    per_sample = dy.shape[1] * size + together * per_group
    bounds = list(_chunks(dy.shape[0], per_sample, dtype.itemsize))
    chunk = bounds[0][1]
    if stacked:
        joined = [xp.ascontiguousarray(weights[:, m].transpose(0, 2, 1, 3)).reshape(groups, c, len(m) * o)
                  for m in members]
    heads = dy.reshape(dy.shape[0], groups, o, *dy.shape[2:])
    results = dx.reshape(dx.shape[0], groups, c, *sizes)
    covers, places = _dx_places(plan, sizes, rows)
    if not covers:
        dx[...] = 0

    def worker():
        buffer = xp.zeros((chunk, groups, o, size), dtype)
        grid = buffer[..., front:front + length].reshape(chunk, groups, o, *rows)
        inside = grid[(..., *[slice(0, n) for n in plan.out])]
        total = xp.empty((chunk, together, c, length), dtype)
        scratch = None if stacked else xp.empty((chunk, together, c, length), dtype)
        columns = xp.empty((chunk, together, most * o, length), dtype) if stacked else None

        def run(start, stop):
            m = stop - start
            inside[:m] = heads[start:stop]
            for block, (p, group) in itertools.product(blocks, enumerate(members)):
                part = slice(0, m), slice(0, block.stop - block.start)
                acc = total[part]
                if stacked:
                    stack = columns[part][:, :, :len(group) * o]
                    for i, t in enumerate(group):
                        stack[:, :, i * o:(i + 1) * o] = buffer[:m, block, :, offsets[t]:offsets[t] + length]
                    xp.matmul(joined[p][block], stack, out=acc)
                else:
                    for i, t in enumerate(group):
                        _product(xp, weights[block, t], buffer[:m, block, :, offsets[t]:offsets[t] + length],
                                 scratch[part] if i else acc)
                        if i:
                            acc += scratch[part]
                source, target = places[p]
                results[(slice(start, stop), block, slice(None), *target)] = \
                    acc.reshape(*acc.shape[:3], *rows)[(..., *source)]
        return run
    run_chunks(xp, bounds, worker)
    return dx


def _dx_places(plan, sizes, rows):
    """(whether the phases cover dx, for each phase (which part of its plane, where in dx))."""
    places, covered = [], 0
    for phase in plan.phases:
        source, target = [], []
        for f, s, p, n, size in zip(phase, plan.stride, plan.pad, sizes, rows):
            first = max(0, -((f - p) // s))
            stop = max(first, min(size, (n - 1 + p - f) // s + 1))
            start = f + s * first - p
            source.append(slice(first, stop))
            target.append(slice(start, start + (stop - first - 1) * s + 1 if stop > first else start, s))
        covered += math.prod(t.stop - t.start for t in source)
        places.append((tuple(source), tuple(target)))
    return covered == math.prod(sizes), places
