"""Neural-network operators, forward alone and with backward. The same script runs on MXNet:

    RAYND_KERNELS=reference python tests/benchmarks/bench_operators.py [NAME ...]
    PYTHON_WITH_MXNET tests/benchmarks/bench_operators.py --module mxnet [NAME ...]

NAMEs choose the operators that contain one of them. Both draw the same inputs. Prints one line an operator, the best of
several repetitions in ms. Machines are noisy: compare figures of one sitting, alternating the two.
"""
from __future__ import annotations

import argparse
import importlib
import os
import time

import numpy as onp

IMAGES, TOKENS, SEQUENCES = (32, 64, 32, 32), (64, 128, 512), (128, 64, 512)


class Integers:
    """Whole numbers below ``stop`` (from ``start``), which get no gradient."""

    def __init__(self, shape, stop, start=0, dtype="int32"):
        self.shape, self.start, self.stop, self.dtype = shape, start, stop, dtype

    def draw(self, rng):
        return rng.integers(self.start, self.stop, self.shape).astype(self.dtype)


LENGTHS = Integers(SEQUENCES[1:2], SEQUENCES[0] + 1, 1, "float32")


def activations(npx):
    for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign", "mish", "log_sigmoid"):
        yield f"activation {kind}", [IMAGES], lambda x, kind=kind: npx.activation(x, act_type=kind)
    for kind in ("leaky", "elu", "selu", "gelu"):
        yield f"leaky_relu {kind}", [IMAGES], lambda x, kind=kind: npx.leaky_relu(x, act_type=kind)
    yield "leaky_relu prelu", [IMAGES, (64,)], lambda x, g: npx.leaky_relu(x, g, act_type="prelu")


def pools(npx):
    for kind in ("max", "avg"):
        for size, stride in ((2, 2), (3, 2), (3, 1)):
            yield f"pooling {kind} {size} / {stride}", [IMAGES], lambda x, kind=kind, size=size, stride=stride: \
                npx.pooling(x, kernel=(size, size), stride=(stride, stride), pool_type=kind)


def normalisations(npx):
    ones = Integers((64,), 2, 1, "float32")
    yield "batch_norm", [IMAGES, (64,), (64,), ones, ones], lambda *arrays: npx.batch_norm(*arrays, fix_gamma=False)
    yield "layer_norm", [TOKENS, (512,), (512,)], npx.layer_norm
    yield "group_norm", [IMAGES, (64,), (64,)], lambda x, g, b: npx.group_norm(x, g, b, num_groups=8)
    yield "instance_norm", [IMAGES, (64,), (64,)], npx.instance_norm
    yield "softmax", [TOKENS], npx.softmax
    yield "softmax of axis 1", [IMAGES], lambda x: npx.softmax(x, axis=1)
    yield "log_softmax", [(64, 10000)], npx.log_softmax
    yield "dropout", [TOKENS], lambda x: npx.dropout(x, p=0.5)


def convolutions(npx):
    def convolution(kernel, stride=1, pad=0, groups=1):
        n = len(kernel)
        return lambda x, w: npx.convolution(x, w, kernel=kernel, stride=(stride,) * n, pad=(pad,) * n, no_bias=True,
                                            num_filter=w.shape[0], num_group=groups)
    yield "convolution 3 x 3 / 2", [(16, 64, 32, 32), (128, 64, 3, 3)], convolution((3, 3), 2, 1)
    yield "convolution 1 x 1", [(16, 256, 14, 14), (64, 256, 1, 1)], convolution((1, 1))
    yield "convolution 7 x 7 / 2", [(8, 3, 112, 112), (64, 3, 7, 7)], convolution((7, 7), 2, 3)
    yield "convolution depthwise", [(16, 64, 32, 32), (64, 1, 3, 3)], convolution((3, 3), 1, 1, 64)
    yield "convolution 1-D", [(32, 64, 256), (64, 64, 5)], convolution((5,), 1, 2)
    yield "convolution 3-D", [(4, 16, 16, 32, 32), (16, 16, 3, 3, 3)], convolution((3, 3, 3), 1, 1)
    yield "deconvolution 4 x 4 / 2", [(16, 64, 16, 16), (64, 32, 4, 4)], lambda x, w: npx.deconvolution(
        x, w, kernel=(4, 4), stride=(2, 2), pad=(1, 1), num_filter=32, no_bias=True)
    yield "deformable_convolution", [(4, 32, 32, 32), (4, 18, 32, 32), (32, 32, 3, 3)], lambda x, o, w: \
        npx.deformable_convolution(x, o, w, kernel=(3, 3), pad=(1, 1), num_filter=32, no_bias=True)


def recurrent(npx):
    for mode, gates in (("rnn_tanh", 1), ("gru", 3), ("lstm", 4)):
        states = [(1, 64, 256)] * (2 if mode == "lstm" else 1)
        yield f"rnn {mode}", [(32, 64, 64), (gates * 256 * (64 + 256 + 2),), *states], lambda x, p, *s, mode=mode: \
            npx.rnn(x, p, *s, mode=mode, state_size=256, num_layers=1)


def lookups(npx):
    yield "fully_connected", [(256, 1024), (512, 1024), (512,)], lambda x, w, b: npx.fully_connected(
        x, w, b, num_hidden=512, no_bias=False)
    yield "embedding", [Integers((64, 128), 20000), (20000, 256)], lambda i, w: npx.embedding(
        i, w, input_dim=20000, output_dim=256)
    yield "pick", [(4096, 1000), Integers((4096,), 1000)], npx.pick
    yield "gather_nd", [(1000, 512), Integers((1, 8192), 1000)], npx.gather_nd
    yield "topk", [(64, 10000)], lambda x: npx.topk(x, k=5, ret_typ="value")
    yield "batch_dot", [(256, 64, 64), (256, 64, 64)], npx.batch_dot
    yield "smooth_l1", [IMAGES], npx.smooth_l1
    yield "ctc_loss", [(50, 32, 60), Integers((32, 10), 59, 1, "float32")], npx.ctc_loss
    yield "sequence_mask", [SEQUENCES, LENGTHS], lambda x, n: npx.sequence_mask(x, n, use_sequence_length=True)
    yield "sequence_reverse", [SEQUENCES, LENGTHS], lambda x, n: npx.sequence_reverse(x, n, use_sequence_length=True)


def legacy(nd):
    def convert(function):
        return lambda *arrays: function(*[a.as_nd_ndarray() for a in arrays]).as_np_ndarray()
    yield "BilinearSampler", [(16, 16, 32, 32), (16, 2, 32, 32)], convert(nd.BilinearSampler)
    yield "BilinearResize2D", [(16, 64, 16, 16)], convert(lambda x: nd.contrib.BilinearResize2D(x, height=32, width=32))
    yield "AdaptiveAvgPooling2D", [IMAGES], convert(lambda x: nd.contrib.AdaptiveAvgPooling2D(x, output_size=(7, 7)))
    yield "UpSampling", [(16, 64, 16, 16)], convert(lambda x: nd.UpSampling(x, scale=2, sample_type="nearest"))


def best(function, seconds=0.4):
    """The best time in ms of at least four repetitions after one to warm up."""
    function()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 4 or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def measure(mx, shapes, function, rng):
    """(forward, forward and backward) in ms."""
    drawn = [s.draw(rng) if isinstance(s, Integers) else rng.standard_normal(s).astype("float32") * 0.3 for s in shapes]
    arrays = [mx.np.array(a, dtype=a.dtype) for a in drawn]
    for a, s in zip(arrays, shapes):
        if not isinstance(s, Integers):
            a.attach_grad()

    def forward():
        with mx.autograd.train_mode():
            function(*arrays)
        mx.npx.waitall()

    def both():
        with mx.autograd.record():
            y = function(*arrays)
        y.backward()
        mx.npx.waitall()
    return best(forward), best(both)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--module", default="raynd")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    os.environ.setdefault("RAYND_MODE", "local")
    mx = importlib.import_module(options.module)
    mx.npx.set_np()
    for family in (activations, pools, normalisations, convolutions, recurrent, lookups, legacy):
        for name, shapes, function in family(mx.nd if family is legacy else mx.npx):
            if not options.names or any(n in name for n in options.names):
                forward, both = measure(mx, shapes, function, onp.random.default_rng(0))
                print(f"{name:32s} forward {forward:8.2f}   with backward {both:8.2f}", flush=True)


if __name__ == "__main__":
    main()
