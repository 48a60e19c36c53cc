"""The API's process: `python -m rft.platform.embedded.api_process <fd>` serves on a socket that is already listening.

The supervisor holds the socket: while a killed API is being replaced, callers wait instead of being refused,
and nobody can take the port.
"""

import gc
import socket
import sys

import uvicorn

from rft.platform.api.http_protocol import HttpProtocol
from rft.platform.settings import settings

_GRACE_S = 3
"""For open streams at shutdown."""


class ApiServer(uvicorn.Server):
    """Looks at what it has loaded once, and not again with every full collection: that would stop all replies."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Ready to answer."""
        await super().startup(sockets)
        gc.collect()
        gc.freeze()


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
    ApiServer(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
