"""Command lines in processes of their own, forked from one that has loaded everything.

Reads requests from standard input, one JSON object a line, and answers each with one.
"""

import json
import os
import pkgutil
import resource
import signal
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import matplotlib.figure  # noqa: F401 - loaded before forking
from matplotlib.backends import backend_agg  # noqa: F401 - as above

import simaccel
from simaccel.__main__ import main

MOST_SECONDS = 60
_ENDS = (signal.SIGINT, signal.SIGTERM)
_INTERRUPTED = 130


def _child(request: dict[str, Any]) -> NoReturn:
    """Run the command line, as a shell would start it."""
    os.chdir(request["folder"])
    for number, name in ((0, os.devnull), (1, request["out"]), (2, request["err"])):
        os.dup2(os.open(name, os.O_RDWR), number)
    if request["file_bytes"]:
        sys.dont_write_bytecode = True  # Python keeps half of a module's, which no process can load
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["file_bytes"],) * 2)
    code: object = 1
    try:
        sys.argv = ["simaccel", *request["line"]]
        for number in _ENDS:
            signal.signal(number, lambda *_: os._exit(_INTERRUPTED))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)
        main()
    except SystemExit as end:
        code = end.code or 0
    except BaseException:  # noqa: BLE001 - what Python does at the end of a process
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(code if isinstance(code, int) else 1)


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    """Start a process, send it a signal after a time, and wait for its end."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)  # Python works on after a fork
    pid = os.fork()
    if pid == 0:
        _child(request)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)
    started = time.monotonic()
    after, number = request["kill"] or (MOST_SECONDS, signal.SIGKILL)
    while True:
        done, status, usage = os.wait4(pid, os.WNOHANG)
        seconds = time.monotonic() - started
        if done:
            code = os.waitstatus_to_exitcode(status)
            return {"code": code, "seconds": seconds, "peak_bytes": usage.ru_maxrss * 1024}
        if seconds >= after:
            os.kill(pid, number)
            after = MOST_SECONDS
        time.sleep(0.002)


if __name__ == "__main__":
    for found in pkgutil.walk_packages(simaccel.__path__, "simaccel."):
        import_module(found.name)
    assert Path(sys.argv[0]).name == "server.py"
    for text in sys.stdin:
        print(json.dumps(_answer(json.loads(text))), flush=True)
