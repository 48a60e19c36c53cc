"""The level of our own log lines, as settings name it."""

from typing import Annotated

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
"""All that `logging`, uvicorn and Celery have in common."""


def _known(name: str) -> str:
    if name.upper() not in _LEVELS:
        raise PydanticCustomError("log_level", "it is none of DEBUG, INFO, WARNING, ERROR and CRITICAL")
    return name.upper()


LogLevel = Annotated[str, AfterValidator(_known)]
"""In capitals, however it was written."""
