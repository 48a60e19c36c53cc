"""Settings of this call: the environment's, options of the command line above them."""

from pathlib import Path

from rft.platform.settings import Settings, settings


def chosen_settings(home: Path | None = None, host: str | None = None, port: int | None = None) -> Settings:
    """The process's settings with what the command line says put over them."""
    said = {"home": home.expanduser().absolute() if home else None, "host": host, "port": port}
    return settings().model_copy(update={name: value for name, value in said.items() if value is not None})
