"""The command line: ``raynd run``, ``raynd devices``, ``raynd doctor`` (also ``python -m raynd ...``)."""
from __future__ import annotations

import argparse
import io
import json
import os
import signal
import sys
from types import ModuleType

import raynd

ENVIRONMENT = {"mode": "RAYND_MODE", "address": "RAYND_ADDRESS", "cpu_devices": "RAYND_CPU_DEVICES",
               "simulate_gpus": "RAYND_SIMULATE_GPUS"}


class CommandError(Exception):
    """Ends the command with a message and exit code 2, as argparse does for bad arguments."""


# -- run ---------------------------------------------------------------------------------------------------------------

def run(options) -> int:
    """Run a script as ``__main__``, with ``mxnet`` being raynd."""
    path = options.script
    if os.path.isdir(path):
        raise CommandError(f"{path} is a directory; give the script in it")
    try:
        with io.open_code(os.path.abspath(path)) as file:
            source = file.read()
    except FileNotFoundError:
        raise CommandError(f"no such script: {path}") from None
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}") from None

    from raynd import compat
    compat.install()
    main_module = ModuleType("__main__")
    main_module.__file__ = path
    sys.modules["__main__"] = main_module         # a real one: classes of the script pickle, spawned processes find it
    sys.argv = [path, *options.arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    try:
        exec(compile(source, path, "exec"), main_module.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next      # as under python, it starts in the script, not here
        sys.excepthook(type(error), error, error.__traceback__)
        return 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


# -- devices -----------------------------------------------------------------------------------------------------------

COLUMNS = ("device", "node", "address", "physical_id", "pid", "memory", "simulated")


def devices(options) -> int:
    """Print the device map."""
    from raynd import session
    session.start(options.mode, options.address, options.cpu_devices, options.simulate_gpus)
    try:
        rows = [{c: getattr(info, c) for c in COLUMNS} for info in session.devices()]
    finally:
        session.shutdown()
    for row in rows:
        row["device"] = str(row["device"])
    if options.json:
        print(json.dumps(rows, indent=2, default=str))
        return 0
    for row in rows:
        row["memory"] = row["memory"] and "{:.1f} of {:.1f} GiB free".format(*(b / 2**30 for b in row["memory"]))
        row["simulated"] = "yes" if row["simulated"] else "no"
        row["node"] = row["node"] and str(row["node"])[:12]
    print(table([tuple(c.replace("_", " ") for c in COLUMNS)]
                + [tuple("-" if row[c] is None else str(row[c]) for c in COLUMNS) for row in rows]))
    return 0


def table(rows) -> str:
    """Rows of strings as aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


# -- doctor ------------------------------------------------------------------------------------------------------------

def doctor(options) -> int:
    """Check the installation; 0 when everything that raynd cannot do without works."""
    from raynd import diagnosis
    results = []
    for check in diagnosis.checks():
        results.append(check)
        if not options.json:
            print(check.line(), flush=True)
    broken = [check.name for check in results if check.status == "FAIL"]
    if options.json:
        print(json.dumps({"ok": not broken, "checks": [check.__dict__ for check in results]}, indent=2))
    else:
        print(f"\nraynd cannot work here yet: see {', '.join(broken)}." if broken else "\nraynd works here.")
    return 1 if broken else 0


# -- arguments ---------------------------------------------------------------------------------------------------------

def count(low):
    """An argparse type: an integer of at least ``low``."""
    def parse(text):
        value = int(text)
        if value < low:
            raise argparse.ArgumentTypeError(f"must be at least {low}, not {value}")
        return value
    parse.__name__ = "integer"
    return parse


def parser() -> argparse.ArgumentParser:
    """The argument parser."""
    runtime = argparse.ArgumentParser(add_help=False)
    group = runtime.add_argument_group("devices")
    group.add_argument("--mode", choices=("ray", "local"), help="Ray actors (default), or all in this process")
    group.add_argument("--address", help="a running Ray cluster, or 'auto'; otherwise Ray is started on this machine")
    group.add_argument("--cpu-devices", type=count(1), metavar="N", help="how many cpu(i) a machine offers")
    group.add_argument("--simulate-gpus", type=count(0), metavar="N", help="how many gpu(i) are played by the CPU")

    top = argparse.ArgumentParser(prog="raynd", description="MXNet programs on Ray: arrays, autograd and gluon whose "
                                                            "devices are Ray actors.")
    top.add_argument("--version", action="version", version=f"raynd {raynd.__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    command = commands.add_parser("run", parents=[runtime], help="run a script that imports mxnet, unmodified",
                                  description="Run a script as python would, with `import mxnet` giving raynd.")
    command.add_argument("script", help="a Python file")
    command.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script finds in sys.argv")
    command.set_defaults(function=run)

    command = commands.add_parser("devices", parents=[runtime], help="print which device is where",
                                  description="Print the device map: device, node, process, memory.")
    command.add_argument("--json", action="store_true", help="as a JSON list")
    command.set_defaults(function=devices)

    command = commands.add_parser("doctor", help="check the installation",
                                  description="Say what is installed and what works, and how to mend the rest.")
    command.add_argument("--json", action="store_true", help="as a JSON object")
    command.set_defaults(function=doctor)
    return top


def main(argv=None) -> int:
    """Run the command line; returns the exit code."""
    options = parser().parse_args(argv)
    for name, variable in ENVIRONMENT.items():
        if getattr(options, name, None) is not None:
            os.environ[variable] = str(getattr(options, name))
    try:
        return options.function(options)
    except CommandError as error:
        message, code = str(error), 2
    except BrokenPipeError:
        # The reader of our output (head, less) has gone. Python would complain again when it flushes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        from raynd.errors import MXNetError
        if not isinstance(error, MXNetError):
            raise
        message, code = str(error), 1
    print(f"raynd {options.command}: {message}", file=sys.stderr)
    return code
