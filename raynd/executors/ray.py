"""Ray mode: every device is an actor. The only module that imports Ray.

Ray places, starts, supervises and ends the actors and answers control calls. The commands go through a socket into
the actor's one long ``serve`` call (see ``worker/serve.py``): a unix socket on the driver's node, TCP elsewhere.
"""
from __future__ import annotations

import atexit
import contextlib
import logging
import os
import pathlib
import secrets
import select
import socket
import threading
import time
from concurrent.futures import Future

from .. import config, protocol
from ..errors import DeviceError, MXNetError, inside_itself

os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")     # Ray warns about its own future default
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

_PROCESS = os.getpid()             # the process that imported this module, and with it Ray


class DeviceActor:
    """The actor of one device."""

    def __init__(self, kind, index, key, simulated):
        from ..worker.backend import Backend, CupyBackend, keep_freed_memory
        from ..worker.serve import Server
        keep_freed_memory()
        context = ray.get_runtime_context()
        self.node = context.get_node_id()
        name = f"{kind}({index})"
        backend = CupyBackend(kind, index) if kind == "gpu" and not simulated else Backend(kind, index)
        self.server = Server(name, backend, key, self.node, ray.util.get_node_ip_address())
        self.simulated = simulated

    @ray.method(concurrency_group="control")
    def address(self):
        """(where to connect, facts for the device map)."""
        ids = ray.get_runtime_context().get_accelerator_ids().get("GPU") or None
        return self.server.address(), {"pid": os.getpid(), "node": self.node, "physical_id": ids and ids[0],
                                       "address": ray.util.get_node_ip_address(), "simulated": self.simulated}

    @ray.method(concurrency_group="serve")
    def serve(self):
        """Execute the driver's stream until it closes."""
        return self.server.run()

    @ray.method(concurrency_group="control")
    def peer_lost(self, name, cause):
        """A peer's actor is dead: values awaited from it will not come."""
        self.server.lose(name, cause)

    @ray.method(concurrency_group="control")
    def memory_info(self):
        """(free, total) bytes."""
        return self.server.worker.backend.memory_info()

    @ray.method(concurrency_group="control")
    def modules(self):
        """Names of the modules loaded in the actor."""
        import sys
        return sorted(sys.modules)

    @ray.method(concurrency_group="control")
    def ping(self):
        """Answer."""
        return True


def actor_class(kind, node_id):
    """The remote class for a device of ``kind`` on a node."""
    return ray.remote(num_cpus=0, num_gpus=1 if kind == "gpu" else 0, max_restarts=0,
                      concurrency_groups={"serve": 1, "control": 4},
                      scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False))(DeviceActor)


@contextlib.contextmanager
def _importable():
    """Processes started inside inherit a PYTHONPATH from which they can import raynd, installed or not."""
    before = os.environ.get("PYTHONPATH")
    here = str(pathlib.Path(__file__).resolve().parents[2])
    os.environ["PYTHONPATH"] = os.pathsep.join(p for p in (before, here) if p)
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def _start_local_cluster():
    with _importable(), _quiet():
        ray.init(address="local", object_store_memory=80 << 20, logging_level=logging.ERROR, include_dashboard=False,
                 configure_logging=False)


def _reachable(address):
    """Raise OSError soon if nothing listens at ``host:port``; Ray itself would go on trying for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=5.0).close()


@contextlib.contextmanager
def _quiet():
    """Inside, Ray logs errors only: that it starts, and how it may be configured, is not the user's concern here."""
    logger = logging.getLogger("ray")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


class Stage:
    """A host array's bytes, copied once: small ones as bytes, large ones in shared memory for all who need a part."""
    __slots__ = ("data", "region", "size")

    def __init__(self, data, region, size):
        self.data, self.region, self.size = data, region, size

    def __del__(self):
        if self.region is not None:
            self.region.release()


class RayLink:
    """The driver's end of a device's stream."""

    def __init__(self, queue, executor, actor, channel, facts):
        self.queue, self.executor, self.actor, self.channel, self.facts = queue, executor, actor, channel, facts
        self.read_lock = threading.RLock()   # a signal handler may wait in the middle of a wait
        self.turn = threading.Condition(threading.Lock())
        self.waiting = 0
        self.reading = False
        self.serve_ref = None

    def submit(self, batch):
        """Send a batch."""
        self.channel.send(protocol.encode(batch))
        if self.channel.pending and not self.reading:        # a send that had to wait for room has read meanwhile
            self.poll(0.0, spin_us=0)

    def watch(self):
        """Have the I/O thread process the next message, unless a waiting thread does so before."""
        with contextlib.suppress(OSError, ValueError):
            self.executor.epoll.modify(self.channel.fileno(), select.EPOLLIN | select.EPOLLONESHOT)

    def poll(self, seconds, spin_us=150):
        """Read and process what has come; wait up to ``seconds`` for something."""
        if not self.read_lock.acquire(blocking=False):
            with self.turn:                  # another thread reads; it wakes us when it has
                self.waiting += 1
                self.turn.wait(0.005)
                self.waiting -= 1
            return
        try:
            if self.reading:                 # this thread, further out
                raise inside_itself(self.queue.device)
            if self.channel.wait(seconds, spin_us=spin_us):
                self.reading = True
                try:
                    self.read()
                    while self.channel.pending and not (self.queue.lost or self.queue.closed or self.executor.closing):
                        self.read()          # what the sending in it has read meanwhile
                finally:
                    self.reading = False
        finally:
            self.read_lock.release()
            if self.waiting:
                with self.turn:
                    self.turn.notify_all()

    def read(self):
        """Process what has come (the caller holds ``read_lock``)."""
        from ..errors import ShutdownError
        try:
            for message in self.channel.receive():
                self.queue.on_report(*protocol.decode(message))
        except (ConnectionError, OSError) as error:
            if self.queue.closed:
                raise ShutdownError(f"{self.queue.device} was shut down") from None
            self.executor.lost(self, error)
        self.queue.refill()

    def reference(self, host, start, size):
        """The payload of a part of a staged host array."""
        if host.region is not None and self.channel.shared:
            if size > config.INLINE_BYTES:
                return self.channel.reference(host.region, start, size)
            return ("b", host.region.array(size, start).tobytes())
        if host.region is not None:
            return ("b", host.region.array(size, start).tobytes())
        return ("b", host.data[start:start + size])

    def receive(self, payload, spec):
        """The writable NumPy array of a FETCH."""
        array = self.channel.unpack(payload, writable=True)
        if not array.flags.writeable:        # a small one, inside the message's bytes
            array = array.copy()
        return array.view(spec.dtype).reshape(spec.shape)


class RayExecutor:
    """Devices on all nodes of a Ray cluster; see ``session.start`` for the settings."""

    in_process = False

    def __init__(self, address=None, cpu_devices=None, simulate_gpus=None):
        from ..worker.regions import RegionPool, shared_memory_available
        self.shared_memory = shared_memory_available()
        self.batch_limit = config.BATCH_COMMANDS
        self.owns_ray = False
        self.ended = threading.Event()
        self.start_ray(address or config.address())
        self.key = secrets.token_bytes(32)
        self.pool = RegionPool()
        self.links = {}
        self.simulated = config.simulate_gpus() if simulate_gpus is None else simulate_gpus
        self.map_devices(cpu_devices or config.cpu_devices())
        self.epoll = select.epoll()
        self.by_fd = {}
        self.closing = False
        self.thread = threading.Thread(target=self.attend, name="raynd-io", daemon=True)
        self.thread.start()

    # -- the cluster -------------------------------------------------------------------------------------------

    def start_ray(self, address):
        """Connect to Ray, or start one on this machine."""
        if address and address.startswith("ray://"):
            raise MXNetError("raynd's driver must run on a node of the cluster, which a ray:// client does not: its "
                             "streams connect to the actors directly. Submit the script as a job: ray job submit "
                             "--working-dir . -- python train.py")
        if os.getpid() != _PROCESS:
            raise MXNetError("this process was forked from one that runs raynd on Ray, and Ray cannot start in it: use "
                             "multiprocessing's 'spawn' method, or mx.init(mode='local') here")
        if ray.is_initialized():
            if ray.util.client.ray.is_connected():
                raise MXNetError("raynd cannot run in a Ray client session; submit the script as a job with "
                                 "ray job submit")
            return
        if address and address != "local":
            try:
                _reachable(address)
                ray.init(address=address, logging_level=logging.ERROR, configure_logging=False)
            except (ConnectionError, OSError) as error:
                raise MXNetError(f"no Ray cluster answers at {address!r}: {error}. Unset RAYND_ADDRESS and RAY_ADDRESS "
                                 "to start a local one; a cluster that asks for a token needs RAY_AUTH_MODE=token "
                                 "here as well") from None
        else:
            self.owns_ray = True
            try:
                self.call_where_it_lasts(_start_local_cluster)
            except BaseException:            # leave no half of a cluster behind, on which the next start would fail
                ray.shutdown()
                raise

    def call_where_it_lasts(self, function):
        """Call ``function`` in a thread that does not end before this executor: the processes that Ray starts end with
        the very thread that started them (Linux's parent-death signal)."""
        if threading.current_thread() is threading.main_thread():
            return function()
        result = Future()

        def run():
            try:
                result.set_result(function())
            except BaseException as error:
                result.set_exception(error)
            self.ended.wait()

        threading.Thread(target=run, name="raynd-ray", daemon=True).start()
        return result.result()

    def map_devices(self, cpu_devices):
        """Freeze the ordinals: node by node, the driver's first."""
        here = ray.get_runtime_context().get_node_id()
        nodes = [n for n in ray.nodes() if n["Alive"]]
        nodes.sort(key=lambda n: (n["NodeID"] != here, n["NodeManagerAddress"], n["NodeID"]))
        self.here = here
        self.map = {"cpu": [], "gpu": []}
        for node in nodes:
            cores = int(node["Resources"].get("CPU", 0)) or 1
            self.map["cpu"] += [(node, False)] * (cpu_devices or max(4, cores))
            self.map["gpu"] += [(node, False)] * int(node["Resources"].get("GPU", 0))
        if self.simulated:
            self.map["gpu"] = [(nodes[0], True)] * self.simulated

    def count(self, kind):
        """How many devices of a kind there are."""
        return len(self.map[kind])

    def missing(self, kind, index, count):
        """The message when a device is not there."""
        how = ("set RAYND_CPU_DEVICES or mx.init(cpu_devices=...)" if kind == "cpu" else
               "add nodes with GPUs to the Ray cluster, or simulate them with RAYND_SIMULATE_GPUS or "
               "mx.init(simulate_gpus=...)")
        return f"{kind}({index}) does not exist: this cluster has {count} {kind} devices; to get more, {how}"

    # -- devices -----------------------------------------------------------------------------------------------

    def open(self, device, queue):
        """Start a device's actor and connect to it."""
        from ..worker.transport import Channel, connect, shared_memory_available
        kind, index = device.device_type, device.device_id
        node, simulated = self.map[kind][index]
        actor_kind = "cpu" if simulated else kind
        actor = actor_class(actor_kind, node["NodeID"]).remote(kind, index, self.key, simulated)
        timeout = config.start_timeout()
        try:
            address, facts = ray.get(actor.address.remote(), timeout=timeout)
        except ray.exceptions.GetTimeoutError:
            free = ray.available_resources()
            ray.kill(actor)
            raise DeviceError(f"{device}: its actor did not start within {timeout:.0f} s (RAYND_START_TIMEOUT). It "
                              f"needs {'one GPU' if kind == 'gpu' else 'no reserved CPU'} on node "
                              f"{node['NodeManagerAddress']}; free in the cluster: {free}") from None
        except ray.exceptions.RayError as error:
            raise DeviceError(f"{device}: its actor could not start: {error}") from None
        link = RayLink(queue, self, actor, None, facts)
        link.serve_ref = actor.serve.remote()
        shared = address["node"] == self.here and "unix" in address and shared_memory_available()
        sock = connect(address["unix" if shared else "tcp"], self.key, timeout=timeout, hello=b"driver")
        link.channel = Channel(sock, self.pool)
        link.address = address
        self.links[device] = link
        self.by_fd[link.channel.fileno()] = link
        self.epoll.register(link.channel.fileno(), 0)
        return link

    def introduce(self, queue):
        """Tell a new device and the others about each other, and divide the node's threads anew."""
        new = self.links[queue.device]
        for device, link in self.links.items():
            if link is not new and link.queue.lost is None:
                link.queue.push((protocol.PEER, str(queue.device), new.address), "peer")
                queue.push((protocol.PEER, str(device), link.address), "peer")
        local = [link for link in self.links.values() if link.facts["node"] == new.facts["node"]
                 and link.queue.device.device_type == "cpu" and link.queue.lost is None]
        cores = os.cpu_count() if new.facts["node"] == self.here else int(
            self.map["cpu"][queue.device.device_id][0]["Resources"].get("CPU", 1)) \
            if queue.device.device_type == "cpu" else 1
        for link in local:
            link.queue.push((protocol.THREADS, max(1, (cores or 1) // len(local))), "threads")

    def describe(self, device):
        """Facts of a device for the map and for messages."""
        link = self.links.get(device)
        if link is not None:
            return link.facts
        node, simulated = self.map[device.device_type][device.device_id]
        return {"node": node["NodeID"], "address": node["NodeManagerAddress"], "pid": None, "physical_id": None,
                "simulated": simulated}

    def memory_info(self, device):
        """(free, total) bytes of a started device."""
        try:
            return ray.get(self.links[device].actor.memory_info.remote(), timeout=10)
        except (ray.exceptions.RayError, ray.exceptions.GetTimeoutError):
            return None

    def modules(self, device):
        """Names of the modules loaded in a started device's actor."""
        return ray.get(self.links[device].actor.modules.remote(), timeout=30)

    def lost(self, link, error):
        """A stream has ended: find out why, and tell the engine."""
        if self.closing:                     # and above all, no Ray call from here may start Ray anew
            return
        cause = f"its stream ended ({error})"
        try:
            ray.get(link.serve_ref, timeout=1.0)
            cause = "its serve call ended"
        except ray.exceptions.GetTimeoutError:
            cause += "; its actor still answers Ray"
        except Exception as ray_error:       # ActorDiedError and its kin, or what serve itself raised
            cause = " ".join(str(ray_error).split())[:400]
        with contextlib.suppress(KeyError, OSError, ValueError):
            self.epoll.unregister(link.channel.fileno())
        self.by_fd.pop(link.channel.fileno(), None)
        link.channel.close()
        link.queue.engine.device_lost(link.queue, cause)

    def peer_lost(self, device):
        """Tell the surviving actors, which may wait for the lost one."""
        for link in list(self.links.values()):
            if self.closing:                 # a Ray call would start Ray anew
                return
            if link.queue.device != device and link.queue.lost is None:
                with contextlib.suppress(Exception):           # it may be dying as well
                    link.actor.peer_lost.remote(str(device), "its actor died")

    # -- host arrays -------------------------------------------------------------------------------------------

    def stage(self, array):
        """A private copy of a host array's bytes, in shared memory if large."""
        from ..worker.copying import copy_large
        size = array.nbytes
        if size <= config.INLINE_BYTES or not self.shared_memory:
            return Stage(array.tobytes(), None, size)
        region = self.pool.allocate_idle(size)
        if region is None:                   # what the workers have given back saves the first touch of fresh memory
            for link in list(self.links.values()):
                link.poll(0.0, spin_us=0)
            try:
                region = self.pool.allocate(size)
            except OSError:                  # out of descriptors or memory for sharing: the socket carries it
                return Stage(array.tobytes(), None, size)
        target = region.array(size).view(array.dtype).reshape(array.shape)
        copy_large(target, array)
        return Stage(None, region, size)

    # -- the I/O thread ----------------------------------------------------------------------------------------

    def attend(self):
        """Process completions that come while nobody waits, so that idle devices get their next batch."""
        while not self.closing:
            try:
                events = self.epoll.poll(1.0)
            except (OSError, ValueError):
                return
            for fd, _ in events:
                link = self.by_fd.get(fd)
                if link is None:
                    continue
                with contextlib.suppress(MXNetError):
                    link.poll(0.0, spin_us=0)
                if link.queue.pending and link.queue.commands_outstanding:
                    link.watch()

    # -- the end -----------------------------------------------------------------------------------------------

    def abandon(self):
        """In a forked child: its end must end nothing of the parent's, neither actors nor Ray itself."""
        self.closing = True
        atexit.unregister(ray._private.worker.shutdown)
        with contextlib.suppress(AttributeError):        # Ray would stop the processes it finds here at exit
            ray._private.worker._global_node.all_processes = {}

    def close(self):
        """End every actor, and Ray if it was started here."""
        self.closing = True
        links, self.links = list(self.links.values()), {}
        for link in links:
            link.channel.close()             # serve() sees the end of its stream and returns
        deadline = time.monotonic() + 2.0
        for link in links:
            with contextlib.suppress(Exception):
                ray.wait([link.serve_ref], timeout=max(0.0, deadline - time.monotonic()))
                ray.kill(link.actor)
        self.thread.join(timeout=2.0)
        self.epoll.close()
        if self.owns_ray and ray.is_initialized():
            ray.shutdown()
        self.ended.set()


