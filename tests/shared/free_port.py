"""A port that nobody listens on."""

import socket


def free_port() -> int:
    """Of this machine's loopback address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
