"""A gateway service on a real socket, in a thread of its own, so that it takes no signals and no loop from the test."""

import socket
import threading
import time

import uvicorn
from fastapi import FastAPI

START_DEADLINE_S = 60.0


class RunningService:
    """An ASGI application behind uvicorn on 127.0.0.1, until stopped; may be started again on the same port."""

    def __init__(self, app: FastAPI, *, port: int = 0) -> None:
        self._server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", port))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})

    @property
    def url(self) -> str:
        """Without a trailing slash."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> "RunningService":
        self._thread.start()
        deadline = time.monotonic() + START_DEADLINE_S
        while not self._server.started:
            assert self._thread.is_alive(), "the server did not start"
            assert time.monotonic() < deadline, "the server did not start in time"
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ask it to stop and wait until it has."""
        self._server.should_exit = True
        self._thread.join(120)
        self._socket.close()
        assert not self._thread.is_alive()
