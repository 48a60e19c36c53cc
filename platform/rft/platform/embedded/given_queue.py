"""A broker of the operator's own: whether anybody is there."""

import socket
from urllib.parse import urlsplit

_PATIENCE_S = 3.0


def queue_problem(url: str) -> str | None:
    """Why no connection to it can be made, in words without its URL; None where one can. Blocks for seconds."""
    try:
        _connect(url)
    except (OSError, ValueError) as problem:
        return str(problem)
    return None


def _connect(url: str) -> None:
    parts = urlsplit(url)
    if "+socket" in parts.scheme:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(parts.path)
        return
    default = 5672 if parts.scheme.startswith("amqp") else 6379
    socket.create_connection((parts.hostname or "localhost", parts.port or default), _PATIENCE_S).close()
