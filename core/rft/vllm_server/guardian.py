"""`python -m rft.vllm_server.guardian COMMAND...`: runs a command until standard input ends.

It ends at the latest when whoever started us dies, however that comes about.

vLLM's engine is a process of its own that outlives a killed server, with all its memory. It stays in the server's
process group, though, which is ours: it ends with us. Its sockets go into a folder of ours: it removes none of them.
"""

import os
import signal
import subprocess
import sys
import threading

from rft.scratch.folder import ScratchFolder, sweep

GRACE_S = 5.0
SOCKETS = "rft-vllm-"
"""How folders of sockets are called. Short: a socket's path may have about a hundred characters."""


def main(command: list[str]) -> None:
    """Never returns: the whole process group is killed."""
    sweep(SOCKETS)
    sockets = ScratchFolder(SOCKETS)
    environment = {**os.environ, "VLLM_RPC_BASE_PATH": str(sockets.path)}
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment)
    threading.Thread(target=_stop_at_end_of_input, args=(child,), daemon=True).start()
    status = child.wait()
    print(f"the server ended with status {status}", flush=True)  # noqa: T201
    sockets.remove()
    os.killpg(0, signal.SIGKILL)


def _stop_at_end_of_input(child: "subprocess.Popen[bytes]") -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    child.terminate()
    try:
        child.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
