"""100,000 eager operators in a loop without a wait: memory of the driver, the actor and shared memory stays flat.

    python tests/benchmarks/bench_memory.py

Prints resident megabytes every 20,000 operators (driver, actor) and the system's shared memory.
"""
from __future__ import annotations

import raynd as mx


def resident(pid):
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * 4096 / 2 ** 20


def shared():
    with open("/proc/meminfo") as f:
        return next(int(line.split()[1]) / 1024 for line in f if line.startswith("Shmem:"))


def main():
    x = mx.np.ones((64, 64))
    y = x
    (y + x).wait_to_read()
    pid = next(d.pid for d in mx.devices() if d.pid)
    for block in range(6):
        print(f"{block * 20_000:7d} operators: driver {resident('self'):.0f} MB, actor {resident(pid):.0f} MB, "
              f"shared {shared():.0f} MB", flush=True)
        for _ in range(20_000):
            y = y * 0.5 + x if _ % 2 else y + x
    mx.waitall()


if __name__ == "__main__":
    main()
