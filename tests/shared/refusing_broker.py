"""A broker that answers, and refuses what it is asked."""

from collections.abc import Generator
from contextlib import contextmanager

from redis import Redis

from rft.platform.embedded.valkey import EmbeddedValkey


@contextmanager
def refusing_writes(valkey: EmbeddedValkey) -> Generator[None]:
    """As it does without its replicas, with a full memory, or where it cannot save."""
    with Redis(unix_socket_path=str(valkey.socket)) as client:
        client.config_set("min-replicas-to-write", 1)
        try:
            yield
        finally:
            client.config_set("min-replicas-to-write", 0)


def is_refused(log: str) -> bool:
    """Whether a worker let its consumer go, for another one or for ever."""
    return "Connection to broker lost" in log or "Unrecoverable error" in log
