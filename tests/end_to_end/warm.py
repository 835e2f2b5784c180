"""A process that has imported everything, and forks one `ablate` command at a time from itself.

A command costs seconds of imports before it does anything, and these tests give a hundred. Each
still runs in a process of its own, with its own folder, environment, output and fate.

Reads orders from stdin, a line of JSON each, and answers each with a line:

    {"start": [...], "cwd": ..., "env": {...}, "out": FILE, "err": FILE}  ->  pid
    {"wait": PID, "seconds": ...}  ->  exit status, -N where signal N ended it, null if it runs on
"""

import json
import os
import resource
import signal
import sys
import time


def serve() -> None:
    import optuna
    import ray.tune
    import scipy.optimize
    import scipy.stats
    import torch._dynamo  # as every optimizer does, in seconds

    import ablate.commands.plan
    import ablate.commands.status
    import ablate.commands.study
    import ablate.commands.trial
    import ablate.compare.page.render
    import ablate.engine.run
    import ablate.engine.screen
    import ablate.lm.training.evaluation
    import ablate.lm.training.training
    import ablate.record.background
    import ablate.tune.cluster.drive
    import ablate.tune.local
    import ablate.tune.search.arm
    from ablate.compare import plots
    from ablate.compare.plots import static, style
    from ablate.config import registry
    from ablate.record import quiet

    quiet.load("mlflow.store.tracking.sqlalchemy_store")
    for name in plots.NAMES:
        plots.get(name)
    for kind in static.KINDS:  # as every study that ends does: matplotlib loads most when it draws
        static.written(style.figure(1, 1)[0], kind)
    for slot in registry.slots():
        for name in registry.names(slot):
            registry.get(slot, name)
    loaded = (optuna, ray.tune, torch, ablate, scipy)
    os.fsync = lambda handle: None  # kills come here, and no power cut
    print(json.dumps(len(loaded)), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        answer = _start(order) if "start" in order else _wait(order["wait"], order["seconds"])
        print(json.dumps(answer), flush=True)


def _start(order: dict) -> int:
    """Fork, and wait until the fork is ready to be killed."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            _settle(order)
            os.write(writing, b"ready")
            status = _command(order["start"])
        except KeyboardInterrupt:  # so early that `ablate` had not started
            status = 130
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    os.close(writing)
    os.read(reading, 5)
    os.close(reading)
    return pid


def _settle(order: dict) -> None:
    """Make the fork a normal process."""
    os.setsid()
    os.chdir(order["cwd"])
    for name, value in order["env"].items():
        os.environ[name] = value
    sys.path[:0] = filter(None, order["env"].get("PYTHONPATH", "").split(os.pathsep))
    for number, place in ((0, os.devnull), (1, order["out"]), (2, order["err"])):
        handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(handle, number)
        os.close(handle)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if "memory" in order:
        resource.setrlimit(resource.RLIMIT_AS, (order["memory"], order["memory"]))


def _command(arguments: list[str]) -> int:
    import traceback

    from ablate.cli import main

    try:
        return main(arguments)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    except BaseException as error:
        called = error.__traceback__.tb_next if error.__traceback__ else None
        if isinstance(error, KeyboardInterrupt) and (
            called is None or called.tb_lineno == main.__code__.co_firstlineno
        ):
            raise  # before the first line of `main`
        traceback.print_exc()
        return 1


def _wait(pid: int, seconds: float) -> int | None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    return None


if __name__ == "__main__":
    serve()
    os._exit(0)  # to tidy up all that was imported takes seconds
