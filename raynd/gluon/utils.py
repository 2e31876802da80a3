"""Helpers of training scripts: splitting batches over devices, clipping gradients, downloading files."""
from __future__ import annotations

import hashlib
import math
import os
import shutil
import tempfile
import urllib.parse
import urllib.request
import warnings

import numpy

from .. import autograd
from ..device import as_device
from ..dispatch import F, HostQueue, Proxy, scope
from ..errors import ArgumentError, ShapeError
from ..util import default_array

__all__ = ["split_data", "split_and_load", "clip_global_norm", "check_sha1", "download", "replace_file", "HookHandle",
           "shape_is_known", "split_rnn_params"]


def split_bounds(size, num_slice):
    """Where ``size`` rows are cut into ``num_slice`` parts whose sizes differ by at most one, the larger ones first:
    a list of (begin, end)."""
    each, extra = divmod(size, num_slice)
    bounds, begin = [], 0
    for i in range(num_slice):
        end = begin + each + (i < extra)
        bounds.append((begin, end))
        begin = end
    return bounds


def _checked_bounds(data, num_slice, batch_axis, even_split):
    if num_slice < 1:
        raise ShapeError(f"data cannot be split into {num_slice} slices")
    if not -len(data.shape) <= batch_axis < len(data.shape):
        raise ShapeError(f"batch_axis {batch_axis} is out of range for data with shape {data.shape}")
    size = data.shape[batch_axis]
    if even_split and size % num_slice:
        raise ShapeError(f"data with shape {data.shape} cannot be evenly split into {num_slice} slices along axis "
                         f"{batch_axis}. Use a batch size that's multiple of {num_slice} or set even_split=False to "
                         "allow uneven partitioning of data.")
    return split_bounds(size, num_slice)


def _part(data, axis, begin, end):
    return data[(slice(None),) * (axis % len(data.shape)) + (slice(begin, end),)]


def split_data(data, num_slice, batch_axis=0, even_split=True):
    """``data`` cut into ``num_slice`` arrays along ``batch_axis``.

    With ``even_split`` the size must be a multiple (else ValueError); without, sizes differ by at most one, and parts
    are empty if there are fewer rows than slices.
    """
    return [F.copy(_part(data, batch_axis, begin, end))
            for begin, end in _checked_bounds(data, num_slice, batch_axis, even_split)]


def split_and_load(data, ctx_list=None, batch_axis=0, even_split=True, device_list=None):
    """``data`` (an array or array-like) split as by :func:`split_data`, the i-th part on the i-th device.

    The parts of a batch that is still on the host go from there straight to their devices.
    """
    devices = [as_device(d) for d in (ctx_list if ctx_list is not None else device_list)]
    if not devices:
        raise ShapeError("split_and_load needs at least one device")
    if not isinstance(data, Proxy):
        data = default_array(data, device=devices[0])
    if len(devices) == 1:
        return [data.as_in_context(devices[0])]
    bounds = _checked_bounds(data, len(devices), batch_axis, even_split)
    contiguous = batch_axis % len(data.shape) == 0
    result = []
    for (begin, end), device in zip(bounds, devices):
        on_host = isinstance(data._buffer.queue, HostQueue)
        part = _part(data, batch_axis, begin, end)
        if part._buffer.queue.device != device or (on_host and contiguous):
            part = autograd.copy_to(part, device)
        elif part._buffer is data._buffer:
            part = F.copy(part)
        result.append(part)
    return result


def clip_global_norm(arrays, max_norm, check_isfinite=True):
    """Scale ``arrays`` in place so that the norm of all of them together is at most ``max_norm``.

    Returns the norm before: a float with ``check_isfinite`` (which warns if it is not finite; this waits for the
    value), else an array of shape (1,) on the first array's device, without any wait. Arrays may be on several devices.
    """
    arrays = list(arrays)
    if not arrays:
        raise ShapeError("clip_global_norm needs at least one array")
    device = arrays[0].device
    with autograd.pause(train_mode=scope().training):
        sums = {}
        for x in arrays:
            square = F.square(x if x._spec.dtype == numpy.float64 else F.cast(x, dtype="float32"))
            part = F.reshape(F.sum(square), newshape=(1,))
            sums[x.device] = sums[x.device] + part if x.device in sums else part
        total = None
        for part in sums.values():
            part = part if part.device == device else autograd.copy_to(part, device)
            total = part if total is None else total + part
        norm = F.sqrt(total)
        if check_isfinite:
            value = float(norm.asnumpy()[0])
            if not numpy.isfinite(value):
                warnings.warn("nan or inf is detected. Clipping results will be undefined.", UserWarning, stacklevel=2)
            scale = max_norm / (value + 1e-8)
            if not scale >= 1.0:
                for x in arrays:
                    x *= scale
            return value
        ones = F.ones_like(norm)
        factor = F.where(norm > max_norm, ones * max_norm / (norm + 1e-8), ones)
        factors = {device: factor}
        for x in arrays:
            if x.device not in factors:
                factors[x.device] = autograd.copy_to(factor, x.device)
            f = factors[x.device]
            x *= f if f._spec.dtype == x._spec.dtype else F.cast(f, dtype=x._spec.dtype.name)
        return norm


def check_sha1(filename, sha1_hash):
    """Whether the file's SHA-1, in hexadecimal digits, is ``sha1_hash``."""
    with open(filename, "rb") as file:
        return hashlib.file_digest(file, "sha1").hexdigest() == sha1_hash if hasattr(hashlib, "file_digest") \
            else hashlib.sha1(file.read()).hexdigest() == sha1_hash


def replace_file(src, dst):
    """Move ``src`` over ``dst`` in one step; on failure ``src`` is removed and OSError raised."""
    try:
        os.replace(src, dst)
    except OSError as error:
        try:
            os.remove(src)
        except OSError:
            pass                             # the error below says what matters
        raise OSError(f"Moving downloaded temp file - {src}, to {dst} failed. Please retry the download.") from error


def _fetch(url, file, verify_ssl):
    """Write the contents of ``url`` to an open file."""
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        with urllib.request.urlopen(url) as source:
            shutil.copyfileobj(source, file)
        return
    import requests
    with requests.get(url, stream=True, verify=verify_ssl, timeout=60) as response:
        if response.status_code != 200:
            raise RuntimeError(f"Failed downloading url {url}: HTTP status {response.status_code}")
        for chunk in response.iter_content(chunk_size=1 << 20):
            file.write(chunk)


def download(url, path=None, overwrite=False, sha1_hash=None, retries=5, verify_ssl=True):
    """Download ``url`` (http, https or file) and return the file's path.

    ``path``: the file, or a directory for it; by default the current directory. An existing file is kept unless
    ``overwrite`` or its SHA-1 is not ``sha1_hash``. A failed attempt, or one with a wrong SHA-1, is repeated up to
    ``retries`` times, then its error raised. Processes that download the same file do not disturb each other.
    """
    if retries < 0:
        raise ShapeError(f"Number of retries should be at least 0, currently it's {retries}")
    name = urllib.parse.urlsplit(url).path.rsplit("/", 1)[-1]
    path = os.path.expanduser(path) if path is not None else None
    if path is None or os.path.isdir(path):
        if not name:
            raise ShapeError(f"Can't construct file-name from the URL {url}. Please set the `path` option manually.")
        path = os.path.join(path, name) if path else name
    if not verify_ssl:
        warnings.warn("Unverified HTTPS request is being made (verify_ssl=False). Adding certificate verification is "
                      "strongly advised.", stacklevel=2)
    if os.path.exists(path) and not overwrite and not (sha1_hash and not check_sha1(path, sha1_hash)):
        return path
    directory = os.path.dirname(os.path.abspath(path))
    os.makedirs(directory, exist_ok=True)
    for attempt in range(retries + 1):
        handle, temporary = tempfile.mkstemp(dir=directory, prefix=os.path.basename(path) + ".")
        try:
            with os.fdopen(handle, "wb") as file:
                _fetch(url, file, verify_ssl)
            if sha1_hash and not check_sha1(temporary, sha1_hash):
                raise UserWarning(f"File {path} is downloaded but the content hash does not match. The repo may be "
                                  "outdated or download may be incomplete.")
            os.chmod(temporary, 0o644)
            replace_file(temporary, path)
            return path
        except Exception as error:
            if os.path.exists(temporary):
                os.remove(temporary)
            if attempt == retries:
                raise
            warnings.warn(f"download of {url} failed due to {error!r}, retrying, {retries - attempt} attempts left",
                          stacklevel=2)


def shape_is_known(shape) -> bool:
    """Whether ``shape`` is a shape without unknown (-1 or 0) sizes."""
    return shape is not None and all(n > 0 for n in shape)


def split_rnn_params(param, mode, num_layers, input_size, hidden_size, bidirectional=False, projection_size=None):
    """The parts of a recurrent layer's packed vector ``param`` by name, in packing order: 'l0_i2h_weight' is the input
    weight of layer 0, 'r0_...' belongs to its reverse direction; then 'h2h' (recurrent), with a projection 'h2r', then
    the biases. ``mode``: 'rnn_relu', 'rnn_tanh', 'lstm' or 'gru'."""
    gates, directions = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}[mode], "lr" if bidirectional else "l"
    out, weights, biases = projection_size or hidden_size, {}, {}
    for layer in range(num_layers):
        size = len(directions) * out if layer else input_size
        for d in directions:
            weights[f"{d}{layer}_i2h_weight"] = gates * hidden_size, size
            weights[f"{d}{layer}_h2h_weight"] = gates * hidden_size, out
            if projection_size:
                weights[f"{d}{layer}_h2r_weight"] = projection_size, hidden_size
            biases.update({f"{d}{layer}_{kind}_bias": (gates * hidden_size,) for kind in ("i2h", "h2h")})
    shapes, parts, begin = {**weights, **biases}, {}, 0
    total = sum(math.prod(shape) for shape in shapes.values())
    if param.shape != (total,):
        raise ShapeError(f"a vector of {total} parameters is needed, not one of shape {param.shape}")
    for name, shape in shapes.items():
        end = begin + math.prod(shape)
        parts[name] = param[begin:end].reshape(shape)
        begin = end
    return parts


class HookHandle:
    """A registered hook: ``detach()`` removes it; as a context manager, at the end of the block."""

    def __init__(self):
        self._hooks, self._id = None, None

    def attach(self, hooks, hook):
        """Add ``hook`` to a dictionary of hooks. Returns the handle."""
        if not callable(hook):
            raise ArgumentError(f"a hook must be callable, not {hook!r}")
        if self._hooks is not None:
            raise RuntimeError("The same handle cannot be attached twice.")
        self._hooks, self._id = hooks, id(self)
        self._hooks[self._id] = hook
        return self

    def detach(self):
        """Remove the hook."""
        if self._hooks is not None:
            self._hooks.pop(self._id, None)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.detach()
