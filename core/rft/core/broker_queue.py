"""What waits in a queue of the broker."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kombu.connection import Connection


def waiting_messages(connection: "Connection", queue: str) -> int:
    """How many messages nobody has taken. Blocks; raises what the transport raises."""
    _ = connection.default_channel  # It connects as the transport's options say; the first of other channels waits 2 s.
    channel = connection.channel()  # One of its own: an error closes it.
    try:
        return channel.queue_declare(queue=queue, passive=True).message_count
    except connection.channel_errors:  # There is none yet; Redis has none that is empty.
        return 0
    finally:
        channel.close()
