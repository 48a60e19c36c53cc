"""`python -m tests.shared.forking_server FD MODULE...`: imports the modules, then becomes each program it is asked for.

A program runs in a fork, as `__main__` and at this file's top level, so that it ends as an interpreter of its own does:
with the status of what it raised, what it registered for its end, and its streams flushed.
"""

import gc
import json
import os
import runpy
import signal
import socket
import sys
from importlib import import_module
from pathlib import Path

DESCRIPTORS = 4
"""A request, where its output and its errors go, and where its process id and then its status are told."""


def next_program(asked: socket.socket) -> str | None:
    """In a fork, what it is to run; in the server, None at its end."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Nobody waits for those that tell how a program ended.
    while True:
        message, descriptors, _, _ = socket.recv_fds(asked, 1, DESCRIPTORS)
        if not message:
            return None
        request, output, errors, told = descriptors
        if os.fork() == 0:
            asked.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            program = os.fork()
            if program == 0:
                os.close(told)
                return _become(request, output, errors)
            for descriptor in (0, 1, 2, request, output, errors):
                os.close(descriptor)
            os.write(told, f"{program}\n".encode())
            status = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
            os.write(told, f"{status}\n".encode())
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)


def _become(request: int, output: int, errors: int) -> str:
    with open(request, "rb") as file:
        file.seek(0)
        wanted = json.load(file)
    os.dup2(output, 1)
    os.dup2(errors, 2)
    os.close(output)
    os.close(errors)
    os.environ.clear()
    os.environ.update(wanted["environment"])
    os.chdir(wanted["folder"])
    sys.argv = wanted["arguments"]
    return sys.argv[0]


if __name__ == "__main__":
    _listening = socket.socket(fileno=int(sys.argv[1]))
    for _module in sys.argv[2:]:
        import_module(_module)
    gc.freeze()
    _program = next_program(_listening)
    if _program is not None and _program.endswith(".py"):
        sys.path[0] = str(Path(_program).parent)
        runpy.run_path(_program, run_name="__main__")
    elif _program is not None:
        runpy.run_module(_program, run_name="__main__", alter_sys=True)
