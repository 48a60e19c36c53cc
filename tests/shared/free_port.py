"""A port that nobody listens on."""

import random
import socket

_BELOW_EPHEMERAL = range(20_000, 32_768)
"""No connection that is made meanwhile takes one of these for its own end."""


def free_port() -> int:
    """Of this machine's loopback address."""
    while True:
        with socket.socket() as taken:
            try:
                taken.bind(("127.0.0.1", port := random.choice(_BELOW_EPHEMERAL)))
            except OSError:
                continue
            return port
