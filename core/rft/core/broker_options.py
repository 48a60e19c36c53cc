"""What the transport of a queue is told, by the kind of broker. Pure."""


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
