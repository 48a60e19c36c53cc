"""The API's process: `python -m rft.platform.embedded.api_process <fd>` serves on a socket that is already listening.

The supervisor holds the socket: while a killed API is being replaced, callers wait instead of being refused,
and nobody can take the port.
"""

import socket
import sys

import uvicorn

from rft.core.gc_tuning import collect_rarely
from rft.platform.api.http_protocol import HttpProtocol
from rft.platform.settings import settings

_GRACE_S = 3
"""For open streams at shutdown."""


def main() -> None:
    """Serve until SIGTERM."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    config = uvicorn.Config(
        "rft.platform.app:create_app",
        factory=True,
        http=HttpProtocol,
        loop="uvloop" if sys.platform != "win32" else "asyncio",
        log_level=settings().log_level.lower(),
        access_log=False,
        timeout_graceful_shutdown=_GRACE_S,
    )
    config.load()
    collect_rarely()  # A full collection that looks at all that is loaded would hold up every reply.
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
