"""Classify handwritten digits by the parameters that ``train_digits.py`` saved.

    python examples/classify_digits.py digits.params              # ten images of the test set
    python examples/classify_digits.py digits.params --images my_digits.npy

``--images``: a NumPy file of images of shape (8, 8) or (n, 8, 8), 0 for paper and 16 for full ink.
"""
from __future__ import annotations

import argparse

import numpy
from train_digits import build_network, load_digits

import raynd as mx

SHADES = " .:-=+*#%@"


def picture(image):
    """An image with values in [0, 1] as text."""
    levels = numpy.clip((image * len(SHADES)).astype(int), 0, len(SHADES) - 1)
    return "\n".join("".join(SHADES[level] * 2 for level in row) for row in levels)


def main():
    parser = argparse.ArgumentParser(description="Classify handwritten digits with saved parameters.")
    parser.add_argument("parameters", help="the file that train_digits.py saved")
    parser.add_argument("--images", help="a .npy file of images (default: images of the test set)")
    parser.add_argument("--count", type=int, default=10, help="how many images of the test set (default: 10)")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--mode", choices=("ray", "local"), default="local")
    args = parser.parse_args()

    mx.init(mode=args.mode)
    labels = None
    if args.images:
        images = numpy.load(args.images).astype("float32").reshape(-1, 1, 8, 8) / 16
    else:
        images, labels = (part[:args.count] for part in load_digits()[1])
    device = getattr(mx, args.device)(0)
    net = build_network()
    net.load_parameters(args.parameters, device=device)
    probabilities = mx.npx.softmax(net(mx.np.array(images, device=device))).asnumpy()
    for i, row in enumerate(probabilities):
        print(picture(images[i, 0]))
        truth = "" if labels is None else f", labelled {labels[i]}"
        print(f"image {i}: {row.argmax()} with probability {row.max():.3f}{truth}\n")
    if labels is not None:
        print(f"{(probabilities.argmax(axis=1) == labels).sum()} of {len(labels)} right")


if __name__ == "__main__":
    main()
