"""Settings of this call: the environment's, options of the command line above them."""

from pathlib import Path

from rft.platform.cli.session import give_up
from rft.platform.settings import BadSetting, Settings, settings


def chosen_settings(
    home: Path | None = None, host: str | None = None, port: int | None = None, *, as_json: bool = False
) -> Settings:
    """The process's settings with what the command line says put over them; ends the command where one is wrong."""
    said = {"home": home.expanduser().absolute() if home else None, "host": host, "port": port}
    try:
        return settings().model_copy(update={name: value for name, value in said.items() if value is not None})
    except BadSetting as problem:
        give_up(str(problem), as_json=as_json)
