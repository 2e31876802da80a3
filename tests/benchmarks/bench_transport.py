"""Costs of the transport between two processes: ``python tests/benchmarks/bench_transport.py``.

Medians, in microseconds and milliseconds. Where the two processes run decides the round trip more than anything here
does, so compare lines of one run only.
"""
import os
import pickle
import statistics
import subprocess
import sys
import time

import numpy as np

from raynd.worker.regions import RegionPool
from raynd.worker.transport import Channel, Listener, connect

KEY = b"benchmark" * 4


def serve(address, spin):
    """Echo small messages; adopt an array, read one value of it, and answer."""
    channel = Channel(connect(address, KEY), RegionPool())
    while True:
        channel.wait(spin_us=spin)
        for message in channel.receive():
            if len(message) < 2000 and message[:1] == b"e":
                channel.send(message)
            else:
                array = channel.unpack(pickle.loads(message))
                last = int(array[-1])
                del array
                channel.send(b"%d" % last)


def ask(channel, message, spin):
    channel.send(message)
    answer = []
    while not answer:
        channel.wait(spin_us=spin)
        answer = channel.receive()
    return answer


def median(function, count):
    times = []
    for _ in range(count):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure(kind, spin):
    listener = Listener(kind, host="127.0.0.1", key=KEY)
    argument = pickle.dumps((listener.address, spin)).hex()
    child = subprocess.Popen([sys.executable, __file__, argument])
    channel = Channel(listener.accept(60)[0], RegionPool())
    print(f"{kind}, spinning {spin} us before it sleeps")
    try:
        for size in (1, 1200):
            message = b"e" * size
            for _ in range(200):
                ask(channel, message, spin)
            cost = median(lambda m=message: ask(channel, m, spin), 3000)
            print(f"  round trip, {size:5} bytes  {cost * 1e6:9.1f} us")

        def pipeline(depth=2000, window=16):
            got = 0
            for n in range(depth):
                channel.send(b"e" * 1200)
                while n - got >= window:
                    channel.wait(spin_us=spin)
                    got += len(channel.receive())
            while got < depth:
                channel.wait(spin_us=spin)
                got += len(channel.receive())
        print(f"  16 deep, 1200 bytes, each  {median(pipeline, 5) / 2000 * 1e6:9.1f} us")
        for size in (800_000, 4_000_000, 64_000_000):
            array = np.ones(size, np.uint8)

            def hand_over(array=array):
                ask(channel, pickle.dumps(channel.pack(array)), spin)
            first = median(hand_over, 1)
            for _ in range(2):
                hand_over()
            print(f"  hand over {size / 1e6:4.1f} MB          {median(hand_over, 30) * 1e3:9.2f} ms "
                  f"(the first time {first * 1e3:.2f}; a copy in memory {median(array.copy, 10) * 1e3:.2f})")
        print(f"  shared memory: {channel._pool.stats()}")
    finally:
        channel.close()
        listener.close()
        child.wait(20)


def send_cost():
    """What send() alone costs the sender, the kernel's part included."""
    import socket
    left, right = socket.socketpair()
    channel, other = Channel(left, None), Channel(right, None)
    for size in (1, 1200):
        message, sends, receives = bytes(size), [], []
        for _ in range(5000):
            start = time.perf_counter()
            channel.send(message)
            middle = time.perf_counter()
            other.receive()
            sends.append(middle - start)
            receives.append(time.perf_counter() - middle)
        print(f"send / receive of {size} bytes, unix, no wake-up: {statistics.median(sends) * 1e6:.1f} / "
              f"{statistics.median(receives) * 1e6:.1f} us")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        try:
            serve(*pickle.loads(bytes.fromhex(sys.argv[1])))
        except ConnectionError:
            sys.exit()
    print(f"{os.cpu_count()} cores")
    send_cost()
    for spin in (0, 60):
        measure("unix", spin)
        measure("tcp", spin)
