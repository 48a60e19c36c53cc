"""What the transport of a queue is told, by the kind of broker. Pure."""

_PUBLISHING_S = 5
"""How long one read or write of a connection that publishes may take."""


def is_redis(url: str) -> bool:
    """Whether Redis or Valkey is behind it, and not RabbitMQ."""
    return url.startswith(("redis", "rediss", "sentinel"))


def transport_options(url: str) -> dict[str, object]:
    """Of kombu's transport."""
    if not is_redis(url):
        return {}
    return {
        "visibility_timeout": 3600,
        "unacked_restore_interval": 10,
        "unacked_restore_throttle": 1,
        "socket_keepalive": True,
        "health_check_interval": 25,
        "socket_timeout": 30,
        "socket_connect_timeout": 5,
    }


def publishing_options(url: str) -> dict[str, object]:
    """Of a connection that publishes a message and is closed: no thread waits long for a broker that falls silent."""
    timeouts = ("socket_timeout", "socket_connect_timeout") if is_redis(url) else ("read_timeout", "write_timeout")
    return {"max_retries": 1, "interval_start": 0, **dict.fromkeys(timeouts, _PUBLISHING_S)}
