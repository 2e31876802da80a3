"""Samples a second of data-parallel training over CPU devices. The same script runs on MXNet:

    python tests/benchmarks/bench_training.py --model lenet --hybridize
    PYTHON_WITH_MXNET tests/benchmarks/bench_training.py --model lenet --hybridize --module mxnet
"""
from __future__ import annotations

import argparse
import importlib
import time

import numpy as onp

BATCH = 256
SHAPES = {"mlp": (784,), "lenet": (1, 28, 28)}


def network(nn, model):
    """A multi-layer perceptron or LeNet, for ten classes."""
    net = nn.HybridSequential()
    if model == "mlp":
        net.add(nn.Dense(512, activation="relu"), nn.Dense(512, activation="relu"), nn.Dense(10))
    else:
        net.add(nn.Conv2D(20, 5, activation="relu"), nn.MaxPool2D(2, 2), nn.Conv2D(50, 5, activation="relu"),
                nn.MaxPool2D(2, 2), nn.Flatten(), nn.Dense(500, activation="relu"), nn.Dense(10))
    return net


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--module", default="raynd")
    parser.add_argument("--model", default="mlp", choices=sorted(SHAPES))
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--hybridize", action="store_true")
    parser.add_argument("--seconds", type=float, default=5.0)
    args = parser.parse_args()
    mx = importlib.import_module(args.module)
    devices = [mx.cpu(i) for i in range(args.devices)]
    net = network(mx.gluon.nn, args.model)
    net.initialize(mx.init.Xavier(), device=devices)
    if args.hybridize:
        net.hybridize(static_alloc=True, static_shape=True)
    loss_fn = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
    rng = onp.random.default_rng(0)
    images = rng.standard_normal((4, BATCH, *SHAPES[args.model]), dtype="float32")
    labels = rng.integers(0, 10, (4, BATCH)).astype("float32")

    def step(i):
        xs, ys = [mx.gluon.utils.split_and_load(mx.np.array(a[i % 4]), devices) for a in (images, labels)]
        with mx.autograd.record():
            losses = [loss_fn(net(x), y) for x, y in zip(xs, ys)]
        mx.autograd.backward(losses)
        trainer.step(BATCH)
        return losses

    for i in range(6):
        losses = step(i)
    mx.npx.waitall()
    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < args.seconds:
        losses = step(steps)
        steps += 1
        if steps % 10 == 0:
            losses[0].asnumpy()
    mx.npx.waitall()
    print(f"{args.module} {args.model}: {steps * BATCH / (time.perf_counter() - start):.0f} samples/s, "
          f"loss {float(losses[0].mean()):.3f}")


if __name__ == "__main__":
    main()
