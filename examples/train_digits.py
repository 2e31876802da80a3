"""Train a LeNet on real handwritten digits, over several devices.

    python examples/train_digits.py                      # two CPU devices, each a Ray actor
    python examples/train_digits.py --mode local         # the same in this process, without Ray
    python examples/train_digits.py --device gpu --devices 4

The digits are the 1797 images of 8 x 8 pixels that come with scikit-learn. Every batch is split over the devices, their
gradients are summed, and each device updates its own copy of the network. The trained parameters are saved to a file,
which ``classify_digits.py`` loads.
"""
from __future__ import annotations

import argparse
import time

import numpy
from tqdm import tqdm

import raynd as mx
from raynd import autograd, gluon
from raynd.gluon import nn


def build_network():
    """LeNet for images of 8 x 8: two convolutions with pooling, two dense layers, ten classes."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(32, kernel_size=3, padding=1, activation="relu"),
            nn.MaxPool2D(2, 2),
            nn.Conv2D(64, kernel_size=3, padding=1, activation="relu"),
            nn.MaxPool2D(2, 2),
            nn.Flatten(),
            nn.Dense(64, activation="relu"),
            nn.Dropout(0.3),
            nn.Dense(10))
    return net


def load_digits():
    """((train images, labels), (test images, labels)): float32 images of shape (n, 1, 8, 8) in [0, 1], int32 labels. A
    fifth of the images, the same every time, are the test set."""
    from sklearn import datasets
    digits = datasets.load_digits()
    images = (digits.images / 16).astype("float32")[:, None]
    labels = digits.target.astype("int32")
    order = numpy.random.RandomState(0).permutation(len(images))
    images, labels = images[order], labels[order]
    held_out = len(images) // 5
    return (images[held_out:], labels[held_out:]), (images[:held_out], labels[:held_out])


def accuracy(net, images, labels, devices, batch_size=256):
    """The part of ``images`` that ``net`` classifies as ``labels``."""
    metric = gluon.metric.Accuracy()
    for x, y in gluon.data.DataLoader(gluon.data.ArrayDataset(images, labels), batch_size):
        xs = gluon.utils.split_and_load(x, devices, even_split=False)
        ys = gluon.utils.split_and_load(y, devices, even_split=False)
        metric.update(ys, [net(part) for part in xs])
    return metric.get()[1]


def train(net, data, devices, epochs, batch_size, learning_rate):
    """Train ``net`` on ``data``, (images, labels), printing loss and accuracy of each epoch."""
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    loader = gluon.data.DataLoader(gluon.data.ArrayDataset(*data), batch_size, shuffle=True)
    schedule = mx.lr_scheduler.CosineScheduler(epochs * len(loader), base_lr=learning_rate)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"lr_scheduler": schedule})
    loss_metric, accuracy_metric = gluon.metric.Loss(), gluon.metric.Accuracy()
    for epoch in range(1, epochs + 1):
        loss_metric.reset()
        accuracy_metric.reset()
        for x, y in tqdm(loader, desc=f"epoch {epoch:2d}", unit="batch", leave=False):
            xs = gluon.utils.split_and_load(x, devices, even_split=False)
            ys = gluon.utils.split_and_load(y, devices, even_split=False)
            with autograd.record():
                outputs = [net(part) for part in xs]
                losses = [loss_function(output, target) for output, target in zip(outputs, ys)]
            autograd.backward(losses)
            trainer.step(len(x))
            loss_metric.update(None, losses)             # adds on the devices: nothing here waits for them
            accuracy_metric.update(ys, outputs)
        print(f"epoch {epoch:2d}: loss {loss_metric.get()[1]:.4f}, accuracy {accuracy_metric.get()[1]:.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description="Train a LeNet on handwritten digits over several devices.")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--devices", type=int, default=2, metavar="N", help="how many devices (default: 2)")
    parser.add_argument("--mode", choices=("ray", "local"), help="Ray actors, or all in this process "
                                                                 "(default: what RAYND_MODE says, else ray)")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64, help="samples of a step, over all devices together")
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", default="digits.params", help="where the parameters go (default: digits.params)")
    args = parser.parse_args()

    mx.init(mode=args.mode)
    mx.random.seed(args.seed)
    numpy.random.seed(args.seed)                         # the order of the samples
    devices = [getattr(mx, args.device)(i) for i in range(args.devices)]
    training, test = load_digits()
    start = time.perf_counter()
    net = build_network()
    net.initialize(mx.init.Xavier(), device=devices)
    net.hybridize()
    train(net, training, devices, args.epochs, args.batch_size, args.learning_rate)
    print(f"test accuracy {accuracy(net, *test, devices):.4f} after {time.perf_counter() - start:.1f} s on "
          f"{', '.join(map(str, devices))}")
    net.save_parameters(args.output)
    print(f"parameters saved to {args.output}")


if __name__ == "__main__":
    main()
