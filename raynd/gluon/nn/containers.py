"""Blocks made of blocks or of functions."""
from __future__ import annotations

import inspect
import warnings

from ... import ndarray as nd, numpy as np, numpy_extension as npx
from ...errors import ArgumentError, ShapeError
from ..block import Block, HybridBlock, _indent


class _Stack:
    """What :class:`Sequential` and :class:`HybridSequential` share. Numbered children; slices are stacks too."""

    def add(self, *blocks):
        """Append blocks."""
        for block in blocks:
            self.register_child(block)

    def forward(self, x, *args):
        """Each block's outputs are the next one's inputs."""
        for child in self._children.values():
            x = child()(x, *args)
            args = ()
            if isinstance(x, (tuple, list)):
                x, args = x[0], tuple(x[1:])
        return (x, *args) if args else x

    @property
    def _layers(self):
        return [child() for child in self._children.values()]

    def __repr__(self):
        lines = [f"  ({name}): {_indent(repr(child()), 2)}" for name, child in self._children.items()]
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])

    def __getitem__(self, key):
        blocks = self._layers[key]
        if not isinstance(blocks, list):
            return blocks
        part = type(self)()
        part.add(*blocks)
        return part

    def __len__(self):
        return len(self._children)

    def __iter__(self):
        return iter(self._layers)


class Sequential(_Stack, Block):
    """Blocks one after the other."""

    def hybridize(self, active=True, **kwargs):
        if active and self._children and all(isinstance(b, HybridBlock) for b in self._layers):
            warnings.warn(f"All children of this Sequential layer '{self!r}'\n are HybridBlocks. Consider using "
                          "HybridSequential for the best performance.", stacklevel=2)
        super().hybridize(active, **kwargs)


class HybridSequential(_Stack, HybridBlock):
    """Hybrid blocks one after the other."""


class Concatenate(Sequential):
    """Every child gets the input; their outputs are joined along ``axis``."""

    def __init__(self, axis=-1, prefix=None, params=None):
        super().__init__(prefix, params)
        self.axis = axis

    def forward(self, x):
        return _joined([block(x) for block in self._layers], self.axis)


class HybridConcatenate(HybridSequential):
    """Every child gets the input; their outputs are joined along ``axis``."""

    def __init__(self, axis=-1, prefix=None, params=None):
        super().__init__(prefix, params)
        self.axis = axis

    def forward(self, x):
        return _joined([block(x) for block in self._layers], self.axis)


def _joined(arrays, axis):
    return np.concatenate(arrays, axis=axis)


class Identity(HybridBlock):
    """Returns its input."""

    def forward(self, x):
        return x


def _function(function):
    """(function, name) from a function or the name of one in mx.np, mx.npx or mx.nd."""
    if isinstance(function, str):
        for namespace in (np, npx, nd):
            if hasattr(namespace, function):
                return getattr(namespace, function), function
        raise ShapeError(f"Function name {function} is not found in np/npx/nd.")
    if not callable(function):
        raise ArgumentError(f"Unrecognized function in lambda: {function} of type {type(function)}")
    return function, getattr(function, "__name__", type(function).__name__)


class Lambda(Block):
    """A block that calls ``function`` (or the function of that name in mx.np or mx.npx) on its inputs."""

    def __init__(self, function, prefix=None, params=None):
        super().__init__(prefix, params)
        self._func_impl, self._func_name = _function(function)

    def forward(self, *args):
        return self._func_impl(*args)

    def __repr__(self):
        return f"{type(self).__name__}({self._func_name})"


class HybridLambda(HybridBlock):
    """As :class:`Lambda`, hybrid. A function whose first parameter is called ``F`` gets ``mx.nd`` for it (1.x)."""

    def __init__(self, function, prefix=None, params=None):
        super().__init__(prefix, params)
        self._func, self._func_name = _function(function)
        try:
            first = next(iter(inspect.signature(self._func).parameters), None)
        except (TypeError, ValueError):          # a function without a readable signature
            first = None
        self._takes_f = first == "F"

    def forward(self, x, *args):
        return self._func(nd, x, *args) if self._takes_f else self._func(x, *args)

    def __repr__(self):
        return f"{type(self).__name__}({self._func_name})"
