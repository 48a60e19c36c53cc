"""What waits in a queue of the broker."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kombu.connection import Connection


def waiting_messages(connection: "Connection", queue: str) -> int:
    """How many messages nobody has taken. Blocks; raises what the transport raises."""
    connection.default_channel  # noqa: B018 - connects as the transport's options say: a second channel would wait longer
    channel = connection.channel()
    try:
        return channel.queue_declare(queue=queue, passive=True).message_count
    except connection.channel_errors:  # There is none yet; Redis has none that is empty.
        return 0
    finally:
        channel.close()
