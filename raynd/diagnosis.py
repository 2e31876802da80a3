"""What ``raynd doctor`` checks. What could crash, hang or leave state behind is tried in a process of its own."""
from __future__ import annotations

import importlib.metadata
import mmap
import os
import platform
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass

import raynd

from . import config
from .errors import ArgumentError

OK, MISSING, FAIL = "ok", "missing", "FAIL"
INSTALL_GPU = "python -m pip install 'cupy-cuda12x[ctk]' nvidia-nccl-cu12"


@dataclass
class Check:
    """One line of the report. ``status``: 'ok', 'missing' (raynd works without it) or 'FAIL' (it does not)."""
    name: str
    status: str
    detail: str = ""
    remedy: str = ""

    def line(self) -> str:
        """The check as text; the remedy on a line of its own."""
        text = f"{self.status:<8} {self.name:<15} {self.detail}"
        return f"{text}\n{'':<25}-> {self.remedy}" if self.remedy and self.status != OK else text


def checks():
    """Run all checks; yields each :class:`Check` as it ends (the one that starts Ray takes some seconds)."""
    yield python()
    yield Check("raynd", OK, f"{raynd.__version__} in {os.path.dirname(raynd.__file__)}")
    for name in ("numpy", "ml_dtypes", "scipy", "threadpoolctl", "ray"):
        yield package(name, True, f"python -m pip install {name}")
    yield package("torch", False, "for faster CPU kernels: python -m pip install torch")
    yield package("cupy-cuda12x", False, f"for gpu(i) on NVIDIA GPUs: {INSTALL_GPU}")
    yield kernels()
    yield shared_memory()
    yield dev_shm()
    yield open_files()
    yield local_mode()
    yield ray_mode()
    yield job_submission()
    cuda_check = cuda()
    yield cuda_check
    yield nccl(cuda_check.status == OK)


# -- what is installed -------------------------------------------------------------------------------------------------

def version(distribution):
    """The installed version of a distribution, or None. Imports nothing."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def package(name, needed, remedy) -> Check:
    """Whether a distribution is installed."""
    found = version(name)
    return Check(name, OK, found) if found else Check(name, FAIL if needed else MISSING, "not installed", remedy)


def python() -> Check:
    """The interpreter and the system."""
    detail = f"{platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    good = sys.version_info >= (3, 10)
    return Check("python", OK if good else FAIL, detail, "Python 3.10 or later is needed")


def kernels() -> Check:
    """Which providers of CPU kernels there are, and which one operators take."""
    try:
        wanted = config.kernels()
    except ArgumentError as error:
        return Check("kernels", FAIL, str(error), "unset RAYND_KERNELS")
    torch = version("torch")
    if wanted == "torch" and not torch:
        return Check("kernels", FAIL, "RAYND_KERNELS=torch, but torch is not installed",
                     "python -m pip install torch, or unset RAYND_KERNELS")
    used = f"torch {torch} (the reference kernels where it has none)" if torch and wanted != "reference" else \
        "the reference kernels (numpy)"
    return Check("kernels", OK, f"{used}; RAYND_KERNELS={wanted}")


# -- the system --------------------------------------------------------------------------------------------------------

def shared_memory() -> Check:
    """Memory that one process makes and another maps by a descriptor that it is sent, as the actors of a node do."""
    slower = "arrays go through sockets instead: correct, slower"
    if not hasattr(os, "memfd_create"):
        return Check("shared memory", MISSING, "memfd is not there (it needs Linux)", slower)
    try:
        ours, theirs = socket.socketpair(socket.AF_UNIX)
        with ours, theirs:
            made = os.memfd_create("raynd-doctor")
            try:
                os.ftruncate(made, mmap.PAGESIZE)
                socket.send_fds(ours, [b"!"], [made])
                _, (received,), _, _ = socket.recv_fds(theirs, 1, 1)
                try:
                    with mmap.mmap(made, mmap.PAGESIZE) as one, mmap.mmap(received, mmap.PAGESIZE) as two:
                        one[:5] = b"raynd"
                        good = two[:5] == b"raynd"
                finally:
                    os.close(received)
            finally:
                os.close(made)
    except OSError as error:
        return Check("shared memory", MISSING, f"memfd does not work: {error}", slower)
    return Check("shared memory", OK if good else FAIL, "memfd, passed by descriptor",
                 "what one mapping wrote, the other did not see; is this an unusual sandbox?")


def dev_shm() -> Check:
    """Room in /dev/shm, where Ray keeps its object store."""
    if not os.path.isdir("/dev/shm"):
        return Check("/dev/shm", MISSING, "not there", "Ray keeps its objects in /tmp then, which is slower")
    usage = shutil.disk_usage("/dev/shm")
    detail = f"{usage.free / 2**30:.1f} of {usage.total / 2**30:.1f} GiB free"
    return Check("/dev/shm", OK if usage.free >= 1 << 30 else MISSING, detail,
                 "Ray wants about 1 GiB; a container gets more with docker run --shm-size=2g")


def open_files() -> Check:
    """The limit on open files: every device holds sockets and shared memory open."""
    try:
        import resource
    except ImportError:
        return Check("open files", OK, "no limit known on this system")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Check("open files", OK if soft >= 1024 or soft == resource.RLIM_INFINITY else MISSING,
                 f"limit {soft} (may be raised to {hard})", "ulimit -n 65536")


# -- trying it ---------------------------------------------------------------------------------------------------------

def attempt(code, seconds, **environment):
    """Run ``code`` in a fresh interpreter: (True, what it printed) or (False, the last line it complained with)."""
    path = os.pathsep.join(filter(None, [os.path.dirname(os.path.dirname(raynd.__file__)),
                                         os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path, **environment},
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.terminate()                  # what it started ends when its connection to it closes
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        return False, f"no answer within {seconds} s"
    if process.returncode == 0:
        return True, out.strip()
    return False, next((line.strip() for line in reversed(err.splitlines()) if line.strip()),
                       f"exit code {process.returncode}")


RUN_ONE_OPERATOR = """
import time
import raynd as mx
from raynd import session
session.start(mode={mode!r}, cpu_devices=1)
start = time.perf_counter()
assert (mx.np.ones(3) + 1).asnumpy().tolist() == [2, 2, 2]
seconds = time.perf_counter() - start
where = session.devices()[0]
session.shutdown()
print(f"an operator on {{where.device}} of node {{where.address}} ran; the first took {{seconds:.1f}} s")
"""


def local_mode() -> Check:
    """An operator in local mode."""
    good, detail = attempt(RUN_ONE_OPERATOR.format(mode="local"), 60, RAYND_MODE="local", RAYND_ADDRESS="")
    return Check("local mode", OK if good else FAIL, detail,
                 "this is raynd itself: install it anew from a clean checkout (python -m pip install -e .)")


def ray_mode() -> Check:
    """An operator on an actor, of the cluster that the environment names or of a Ray started for it."""
    good, detail = attempt(RUN_ONE_OPERATOR.format(mode="ray"), 120, RAYND_MODE="ray")
    try:
        address = config.address()
    except ArgumentError:
        address = None
    if address:
        remedy = (f"is the cluster at {address} up (ray status), are Ray's and Python's versions the same there, and "
                  "does it need RAY_AUTH_MODE=token?")
    else:
        remedy = "`ray start --head` alone shows whether Ray itself starts; meanwhile RAYND_MODE=local works without it"
    return Check("ray", OK if good else FAIL, detail + (f" (cluster {address})" if address else ""), remedy)


def job_submission() -> Check:
    """Whether `ray job submit` can work from here."""
    wanted = [name for name in ("aiohttp", "opencensus", "prometheus-client", "pydantic") if not version(name)]
    return Check("ray job submit", MISSING if wanted else OK, "not installed" if wanted else "installed",
                 "only for submitting jobs to a cluster: python -m pip install 'ray[default]'")


TRY_CUDA = """
import cupy
names = []
for i in range(cupy.cuda.runtime.getDeviceCount()):
    with cupy.cuda.Device(i):
        assert float((cupy.arange(10.0) + 1).sum()) == 55          # a compiled kernel: NVRTC
        assert float((cupy.ones((4, 4)) @ cupy.ones((4, 4)))[0, 0]) == 4     # cuBLAS
        names.append(cupy.cuda.runtime.getDeviceProperties(i)["name"].decode())
assert names, "CUDA works, but there is no GPU"
print(f"{len(names)}: {', '.join(names)}")
"""


def cuda() -> Check:
    """A kernel and a matrix product on each GPU of this machine."""
    if version("cupy-cuda12x") is None:
        return Check("cuda", MISSING, "not tried without cupy", "gpu(i) can be simulated: RAYND_SIMULATE_GPUS=2")
    good, detail = attempt(TRY_CUDA, 120)
    return Check("cuda", OK if good else MISSING, detail,
                 f"needed: an NVIDIA GPU, a driver for CUDA 12 (nvidia-smi), {INSTALL_GPU}; "
                 "without, gpu(i) can be simulated: RAYND_SIMULATE_GPUS=2")


def nccl(gpus) -> Check:
    """NCCL, for all-reduce between GPUs."""
    if not gpus:
        return Check("nccl", MISSING, "not tried without a GPU", "only for several GPUs")
    good, detail = attempt("from cupy.cuda import nccl\nprint(nccl.get_version())", 60)
    return Check("nccl", OK if good else MISSING, detail,
                 "all-reduce between GPUs goes through host memory; python -m pip install nvidia-nccl-cu12")
