"""`connection.json`: where a client finds the running platform. It exists exactly while the platform serves."""

from pathlib import Path

from pydantic import ValidationError

from rft.core.base import Record


class Connection(Record):
    """What a client needs, and whose platform it is."""

    base_url: str
    """For the OpenAI SDK; ends in `/v1`."""
    api_key: str
    dashboard_url: str
    """Signs one browser in, once, within a day of the start; `rft dashboard` makes another."""
    pid: int
    """The supervisor's."""


def connection_file(home: Path) -> Path:
    """Where the record lies."""
    return home / "connection.json"


def publish(home: Path, connection: Connection) -> None:
    """Write the record, whole or not at all, for our eyes only."""
    from rft.platform.embedded.home import write_private  # Late: whoever only reads starts without asyncio.

    write_private(connection_file(home), connection.model_dump_json(indent=1))


def read_connection(home: Path) -> Connection | None:
    """The record; None when there is none (yet) or it is not ours to read."""
    try:
        return Connection.model_validate_json(connection_file(home).read_bytes())
    except (FileNotFoundError, NotADirectoryError, PermissionError, ValidationError):
        return None


def withdraw(home: Path) -> None:
    """Remove the record: the platform no longer serves."""
    connection_file(home).unlink(missing_ok=True)
