"""Forward plus backward of convolutions, pooling and an LSTM against plain PyTorch, within one run.

    python tests/benchmarks/bench_kernels.py [--threads 1] [--kernels reference|torch]

Times are the best of several repetitions, interleaved; the last column is raynd's time over PyTorch's. PyTorch is
measured in the same process, so run it on a quiet machine.
"""
from __future__ import annotations

import argparse
import math
import os
import time

CONVOLUTIONS = (((64, 1, 28, 28), (20, 1, 5, 5), 0), ((64, 20, 12, 12), (50, 20, 5, 5), 0),
                ((32, 64, 32, 32), (64, 64, 3, 3), 1), ((16, 256, 14, 14), (256, 256, 3, 3), 1))
POOLS = ((64, 20, 24, 24), (32, 64, 32, 32))


def best(functions, repetitions=12):
    """The best time in ms of each function, their repetitions interleaved."""
    times = [[] for _ in functions]
    for _ in range(repetitions):
        for f, t in zip(functions, times):
            start = time.perf_counter()
            f()
            t.append(time.perf_counter() - start)
    return [1e3 * min(t) for t in times]


def layer(mx, arrays, function):
    """A function that runs ``function`` and its backward once and waits."""
    for a in arrays:
        a.attach_grad()
    with mx.autograd.record():
        head = mx.np.random.normal(size=function(*arrays).shape)
    head.wait_to_read()

    def run():
        with mx.autograd.record():
            y = function(*arrays)
        y.backward(head)
        mx.waitall()
    return run


def torch_layer(torch, tensors, function):
    """The same in PyTorch."""
    for t in tensors:
        t.requires_grad_(True)
    head = torch.randn_like(function(*tensors))

    def run():
        for t in tensors:
            t.grad = None
        function(*tensors).backward(head)
    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--kernels", default="reference", choices=("reference", "torch"))
    options = parser.parse_args()
    os.environ.update(RAYND_MODE="local", RAYND_KERNELS=options.kernels, OMP_NUM_THREADS=str(options.threads))
    import numpy
    import threadpoolctl
    import torch

    import raynd as mx
    threadpoolctl.threadpool_limits(options.threads)
    torch.set_num_threads(options.threads)
    rng, ratios = numpy.random.default_rng(0), []

    def report(name, ours, theirs):
        a, b = best((ours, theirs))
        ratios.append(a / b)
        print(f"{name:45s} raynd {a:8.2f} ms   torch {b:8.2f} ms   ratio {a / b:5.2f}", flush=True)

    for xs, ws, p in CONVOLUTIONS:
        values = [rng.standard_normal(s).astype("float32") for s in (xs, ws, ws[:1])]
        report(f"convolution {xs} {ws}",
               layer(mx, [mx.np.array(v) for v in values], lambda x, w, b, p=p, k=ws[2:]: mx.npx.convolution(
                   x, w, b, kernel=k, pad=(p, p))),
               torch_layer(torch, [torch.from_numpy(v.copy()) for v in values],
                           lambda x, w, b, p=p: torch.conv2d(x, w, b, padding=p)))
    print(f"geometric mean {math.prod(ratios) ** (1 / len(ratios)):.2f}, worst {max(ratios):.2f}")
    for xs in POOLS:
        value = rng.standard_normal(xs).astype("float32")
        report(f"max pooling 2 x 2 {xs}",
               layer(mx, [mx.np.array(value)], lambda x: mx.npx.pooling(x, kernel=(2, 2), stride=(2, 2))),
               torch_layer(torch, [torch.from_numpy(value.copy())], lambda x: torch.max_pool2d(x, 2)))
        values = [value, numpy.ones(xs[1], "float32"), numpy.zeros(xs[1], "float32")]
        moving = [mx.np.zeros(xs[1]), mx.np.ones(xs[1])]
        report(f"batch normalisation {xs}",
               layer(mx, [mx.np.array(v) for v in values],
                     lambda x, g, b, moving=moving: mx.npx.batch_norm(x, g, b, *moving, fix_gamma=False)),
               torch_layer(torch, [torch.from_numpy(v.copy()) for v in values],
                           lambda x, g, b: torch.nn.functional.batch_norm(x, None, None, g, b, True)))
    for shape in ((64, 1000), (32, 12, 128, 128)):
        value = rng.standard_normal(shape).astype("float32")
        report(f"softmax {shape}", layer(mx, [mx.np.array(value)], mx.npx.softmax),
               torch_layer(torch, [torch.from_numpy(value.copy())], lambda x: torch.softmax(x, -1)))
    t, n, c, h = 32, 64, 64, 256
    reference = torch.nn.LSTM(c, h)
    packed = torch.cat([w.reshape(-1) for w in reference.parameters()]).detach().numpy()
    values = [rng.standard_normal((t, n, c)).astype("float32"), packed, numpy.zeros((1, n, h), "float32"),
              numpy.zeros((1, n, h), "float32")]
    report("lstm T 32, N 64, C 64, H 256",
           layer(mx, [mx.np.array(v) for v in values],
                 lambda *a: mx.npx.rnn(*a, mode="lstm", state_size=h, num_layers=1)),
           torch_layer(torch, [torch.from_numpy(values[0].copy())], lambda x: reference(x)[0]))


if __name__ == "__main__":
    main()
