"""What the runtime itself costs: an operator, a wait, a copy, an all-reduce. The same script runs on MXNet:

    python tests/benchmarks/bench_runtime.py
    PYTHON_WITH_MXNET tests/benchmarks/bench_runtime.py --module mxnet

Prints one line a figure. Machines are noisy: compare figures of one sitting, alternating the two.
"""
from __future__ import annotations

import argparse
import importlib
import statistics
import time

import numpy as onp


def milliseconds(function, repeat=7):
    """Median time of ``function`` after one call to warm up."""
    function()
    samples = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        samples.append((time.perf_counter() - start) * 1e3)
    return statistics.median(samples)


def operators(mx):
    """Microseconds an operator: in a chain, with a wait after each, on the tape forward and backward."""
    a = mx.np.ones((16, 16))

    def chain():
        b = a
        for _ in range(5000):
            b = (b + a) * 1.0
        b.asnumpy()

    def waits():
        for _ in range(200):
            (a + a).asnumpy()

    def tape():
        a.attach_grad()
        for _ in range(20):
            with mx.autograd.record():
                b = a
                for _ in range(25):
                    b = mx.np.tanh(b * a)
                total = b.sum()
            total.backward()
        a.grad.asnumpy()

    yield "small operator in a chain, us", milliseconds(chain) * 1e3 / 10_000
    yield "operator and wait, us", milliseconds(waits) * 1e3 / 200
    yield "operator on the tape, forward and backward, us", milliseconds(tape) * 1e3 / (20 * 51)


def copies(mx):
    """Milliseconds of copies between host and device and between devices."""
    for megabytes in (4, 64):
        host = onp.ones(megabytes << 18, "float32")
        array = mx.np.array(host, ctx=mx.cpu(0))
        array.wait_to_read()
        yield f"host to device, {megabytes} MB, ms", milliseconds(
            lambda host=host: mx.np.array(host, ctx=mx.cpu(0)).wait_to_read())
        yield f"device to host, {megabytes} MB, ms", milliseconds(array.asnumpy)
        yield f"device to device, {megabytes} MB, the same array again, ms", milliseconds(
            lambda array=array: array.copyto(mx.cpu(1)).wait_to_read())
        samples = []
        for _ in range(10):
            fresh = array + 1
            fresh.wait_to_read()
            start = time.perf_counter()
            fresh.copyto(mx.cpu(1)).wait_to_read()
            samples.append((time.perf_counter() - start) * 1e3)
        yield f"device to device, {megabytes} MB, a new array each time, ms", statistics.median(samples[3:])


def collectives(mx):
    """Milliseconds of a sum over two devices and of a whole trainer step, 4 MB of parameters."""
    devices = [mx.cpu(0), mx.cpu(1)]
    parameters = {}
    for i in range(16):
        p = parameters[f"p{i}"] = mx.gluon.Parameter(f"p{i}", shape=(1 << 16,))
        p.initialize(ctx=devices)
    trainer = mx.gluon.Trainer(parameters, "sgd", {"learning_rate": 0.0}, kvstore="device", update_on_kvstore=False)

    def gradients():
        with mx.autograd.record():
            losses = [sum((p.data(d) * 3).sum() for p in parameters.values()) for d in devices]
        mx.autograd.backward(losses)

    def reduce():
        trainer.allreduce_grads()
        mx.npx.waitall()

    def step():
        gradients()
        trainer.step(1)
        mx.npx.waitall()

    gradients()
    yield "all-reduce of 4 MB over two devices, ms", milliseconds(reduce)
    yield "forward, backward and trainer step of 4 MB over two devices, ms", milliseconds(step)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--module", default="raynd")
    mx = importlib.import_module(parser.parse_args().module)
    for part in (operators, copies, collectives):
        for name, value in part(mx):
            print(f"{name:65s}{value:10.3f}", flush=True)


if __name__ == "__main__":
    main()
