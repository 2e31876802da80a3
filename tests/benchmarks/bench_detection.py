"""Operators of object detection on the sizes of SSD300 and Faster R-CNN. The same script runs on MXNet:

    python tests/benchmarks/bench_detection.py
    PYTHON_WITH_MXNET tests/benchmarks/bench_detection.py --module mxnet

Both draw the same inputs. Prints one line a figure, the best of several repetitions in ms. Machines are noisy: compare
figures of one sitting, alternating the two.
"""
from __future__ import annotations

import argparse
import importlib
import os
import time

import numpy as onp

BATCH, CLASSES = 32, 21
PYRAMID = ((38, 4), (19, 6), (10, 6), (5, 6), (3, 4), (1, 4))          # SSD300: side of a feature map, boxes at a place


def anchors():
    """The 8732 anchor boxes of SSD300, (1, 8732, 4)."""
    result = []
    for level, (side, count) in enumerate(PYRAMID):
        size = 0.1 + 0.15 * level
        ratios = (1.0, 1.0, 2.0, 0.5, 3.0, 1 / 3)[:count]
        half = onp.array([[size * r ** 0.5, size / r ** 0.5] for r in ratios]) / 2
        half[1] *= 1.2
        centre = (onp.stack(onp.meshgrid(onp.arange(side), onp.arange(side)), -1).reshape(-1, 1, 2) + 0.5) / side
        result.append(onp.concatenate([centre - half, centre + half], -1).reshape(-1, 4))
    return onp.concatenate(result)[None].astype("float32")


def boxes(rng, *shape, size=(0.05, 0.4)):
    """Random boxes in the unit square."""
    extent = rng.uniform(*size, (*shape, 2))
    corner = rng.uniform(0, 1, (*shape, 2)) * (1 - extent)
    return onp.concatenate([corner, corner + extent], -1)


def inputs(rng):
    """All inputs by name, as float32."""
    prior = anchors()
    count = prior.shape[1]
    classes = rng.integers(0, CLASSES - 1, (BATCH, count, 1))
    noise = rng.normal(0, 1, (BATCH, CLASSES, count))
    noise[:, 0] += 4                                                   # most anchors see background
    e = onp.exp(noise)
    label = onp.full((BATCH, 16, 5), -1.0)
    for row, objects in zip(label, rng.integers(1, 9, BATCH)):
        row[:objects, 0] = rng.integers(0, CLASSES - 1, objects)
        row[:objects, 1:] = boxes(rng, objects, size=(0.1, 0.7))
    rois = onp.concatenate([rng.integers(0, 2, (256, 1)), boxes(rng, 256, size=(0.1, 0.6)) * 800], -1)
    values = {
        "scored": onp.concatenate([classes, rng.uniform(0, 1, (BATCH, count, 1)), boxes(rng, BATCH, count)], -1),
        "anchor": prior, "label": label, "cls_pred": noise, "cls_prob": e / e.sum(1, keepdims=True),
        "loc_pred": rng.normal(0, 0.5, (BATCH, count * 4)), "data": rng.normal(0, 1, (2, 256, 50, 50)), "rois": rois,
        "head": rng.normal(0, 1, (256, 256, 7, 7)), "overlap": rng.uniform(0, 1, (BATCH, 1000, 16)),
        "turned": onp.concatenate([rois, rng.uniform(-90, 90, (256, 1))], -1),
    }
    return {k: v.astype("float32") for k, v in values.items()}


def milliseconds(mx, function, repeat):
    """The best time of ``function``, after one call to warm up."""
    times = []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        function()
        mx.npx.waitall()
        times.append((time.perf_counter() - start) * 1e3)
    return min(times[1:])


def cases(mx, x, nd):
    """Pairs of a name and a function to time."""
    npx = mx.npx
    yield "box_nms (32, 8732, 6), topk 400", lambda: npx.box_nms(
        x["scored"], overlap_thresh=0.45, valid_thresh=0.01, topk=400, id_index=0)
    yield "box_nms (32, 8732, 6), topk 400, force_suppress", lambda: npx.box_nms(
        x["scored"], overlap_thresh=0.45, valid_thresh=0.01, topk=400, id_index=0, force_suppress=True)
    yield "box_nms (1, 2000, 6), all boxes", lambda: npx.box_nms(x["scored"][:1, :2000], overlap_thresh=0.7)
    yield "bipartite_matching (32, 1000, 16)", lambda: npx.bipartite_matching(x["overlap"], threshold=0.5)
    yield "multibox_target, 8732 anchors, batch 32, mining 3", lambda: npx.multibox_target(
        x["anchor"], x["label"], x["cls_pred"], negative_mining_ratio=3.0)
    yield "multibox_target, 8732 anchors, batch 32", lambda: npx.multibox_target(
        x["anchor"], x["label"], x["cls_pred"])
    yield "multibox_detection, 8732 anchors, batch 32, topk 400", lambda: npx.multibox_detection(
        x["cls_prob"], x["loc_pred"], x["anchor"], threshold=0.01, nms_topk=400)
    pools = {"roi_pooling": (npx.roi_pooling, "rois"), "roi_align": (nd["_contrib_ROIAlign"], "rois"),
             "rroi_align": (nd["_contrib_RROIAlign"], "turned")}
    for name, (pool, regions) in pools.items():
        def forward(pool=pool, regions=regions):
            return pool(x["data"], x[regions], pooled_size=(7, 7), spatial_scale=1 / 16)

        def both(forward=forward):
            with mx.autograd.record():
                y = forward()
            y.backward(x["head"])
        yield f"{name} (2, 256, 50, 50), 256 regions, 7 x 7", forward
        if name != "rroi_align" or mx.__name__ == "raynd":             # MXNet cannot differentiate it
            yield f"{name}, forward and backward", both


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--module", default="raynd")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", default="", help="time only what has this in its name")
    options = parser.parse_args()
    if options.module == "raynd":
        os.environ.setdefault("RAYND_MODE", "local")
    mx = importlib.import_module(options.module)
    values = inputs(onp.random.default_rng(0))
    x = {k: mx.np.array(v, dtype="float32") for k, v in values.items()}
    legacy = {"data", "rois", "turned", "head"}
    nd = {}
    for name in ("_contrib_ROIAlign", "_contrib_RROIAlign"):
        nd[name] = legacy_operator(mx, name)
    x["data"].attach_grad()
    assert legacy <= set(x)
    for name, function in cases(mx, x, nd):
        if options.only in name:
            print(f"{name:55s} {milliseconds(mx, function, options.repeat):9.1f} ms", flush=True)


def legacy_operator(mx, name):
    """An operator of ``mx.nd`` as a function of mx.np arrays."""
    function = getattr(mx.nd, name, None) or getattr(mx.nd.contrib, name.removeprefix("_contrib_"))
    return lambda data, rois, **attrs: function(data.as_nd_ndarray(), rois.as_nd_ndarray(), **attrs).as_np_ndarray()


if __name__ == "__main__":
    main()
