"""Local mode: the workers of all devices run in the driver's process, in the calling thread.

A batch executes when it is flushed. Commands come in the driver's order, so what a command takes from another device
(a copy, a collective) has always been posted before.
"""
from __future__ import annotations

import os
import random
import threading
import time

import numpy

from .. import config, protocol
from ..spec import as_dtype
from ..worker.backend import Backend, keep_freed_memory
from ..worker.worker import Hooks, Worker


class LocalHooks(Hooks):
    """Values change hands by reference inside one process; shared arrays are read-only, so a writer copies."""

    def __init__(self, name, mailbox):
        self.name, self.mailbox = name, mailbox

    def pack(self, array):
        return array.copy()

    def unpack(self, payload, shape, dtype):
        if isinstance(payload, (bytes, bytearray, memoryview)):
            payload = numpy.frombuffer(payload, dtype=numpy.uint8)
        return payload.view(as_dtype(dtype)).reshape(shape)

    def post(self, peers, tag, value):
        if hasattr(value, "copy"):
            value = value.copy()
            value.flags.writeable = False
        for peer in peers:
            self.mailbox[tag, self.name, peer] = value

    def take(self, tag, peer):
        key = tag, peer, self.name
        while self.mailbox.together and key not in self.mailbox:     # the peer's stream runs in another thread
            time.sleep(0.0001)
        return self.mailbox.pop(key)


class Mailbox(dict):
    """Values posted and not yet taken. ``together``: streams run side by side, so a value may still come."""
    together = False


class LocalLink:
    """A worker in this process."""

    def __init__(self, worker, queue, chooser):
        self.worker, self.queue, self.chooser = worker, queue, chooser
        self.lock = threading.RLock()

    def submit(self, batch):
        if self.chooser is not None:
            batch = protocol.decode(protocol.encode(batch))
            self.queue.batch_limit = self.chooser.choice((1, 2, 3, 7, 50, 256))
        with self.lock:
            self.worker.execute(batch)
            failures, replies = self.worker.report()
        self.queue.on_report(1, failures, replies)

    def watch(self):
        """Batches complete as they are submitted: there is nothing to watch."""

    def poll(self, seconds):
        self.queue.flush()

    def reference(self, host, start, size):
        """The payload of a part of a staged host array: a read-only view."""
        return host[start:start + size]

    def receive(self, payload, spec):
        """The NumPy array of a FETCH."""
        return payload


class LocalExecutor:
    """``cpu_devices`` CPU devices, and ``simulate_gpus`` GPU devices played by NumPy."""

    in_process = True

    def __init__(self, cpu_devices=None, simulate_gpus=None):
        keep_freed_memory()                  # this process is the devices' own, as an actor's is
        self.counts = {"cpu": cpu_devices or config.cpu_devices() or max(4, os.cpu_count() or 1),
                       "gpu": config.simulate_gpus() if simulate_gpus is None else simulate_gpus}
        self.mailbox = Mailbox()
        setting = config.local_batch()
        self.chooser = None
        self.batch_limit = 1
        if setting.startswith("random"):
            self.chooser = random.Random(int(setting.partition(":")[2] or 0))
            self.batch_limit = 7
        else:
            self.batch_limit = int(setting)

    def count(self, kind):
        return self.counts[kind]

    def missing(self, kind, index, count):
        how = ("RAYND_CPU_DEVICES or mx.init(cpu_devices=...)" if kind == "cpu" else
               "RAYND_SIMULATE_GPUS or mx.init(simulate_gpus=...); local mode has no real GPUs")
        return f"{kind}({index}) does not exist: there are {count} {kind} devices; get more by {how}"

    def open(self, device, queue):
        hooks = LocalHooks(str(device), self.mailbox)
        worker = Worker(str(device), Backend(device.device_type, device.device_id), hooks)
        return LocalLink(worker, queue, self.chooser)

    def run_together(self, work):
        """Execute batches of several links (pairs of link and list of batches) side by side, since they exchange
        values both ways."""
        def run(link, batches):
            for batch in batches:
                link.submit(batch)
        threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in work if pair[1]]
        self.mailbox.together = True
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            self.mailbox.together = False

    def introduce(self, queue):
        """Workers of one process need not be told of each other."""

    def stage(self, array):
        """A private copy of a host array's bytes."""
        host = numpy.array(array, order="C", copy=True).reshape(-1).view(numpy.uint8)
        host.flags.writeable = False
        return host

    def describe(self, device):
        return {"node": "local", "pid": os.getpid(), "address": "in process", "simulated": device.device_type == "gpu",
                "physical_id": None}

    def memory_info(self, device):
        return Backend().memory_info()

    def peer_lost(self, device):
        """Workers in one process are never lost alone."""

    def close(self):
        self.mailbox.clear()
