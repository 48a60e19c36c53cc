"""Base models are looked at before a job starts from one: by a process of its own, once for each state of its files."""

import asyncio
import logging
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from rft.core.model_check import ModelCheck
from rft.platform.api.errors import BadRequest
from rft.platform.orders.base_models import STARTER

_LOG = logging.getLogger(__name__)
_PATIENCE_S = 60.0
_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json", "config.json")

State = tuple[tuple[int, int] | None, ...]


async def refuse_unusable_model(name: str, base_model: str) -> None:
    """Raises BadRequest when the model's chat template cannot carry tools.

    Only what lies on this machine with a `tokenizer.json` can be looked at; the trainer looks at everything. The
    starter needs no look: its tests prove it.
    """
    if name == STARTER:
        return
    try:
        check = await asyncio.to_thread(_look_at, base_model)
    except (OSError, subprocess.SubprocessError, ValidationError) as error:
        _LOG.warning("the model '%s' could not be looked at, its trainer will: %s", name, error)
        return
    if check is not None and check.problem is not None:
        raise BadRequest(
            f"The model '{name}' cannot be trained to use tools: {check.problem}.", param="model", code="unusable_model"
        )


def _look_at(base_model: str) -> ModelCheck | None:
    """None where there is nothing to look at."""
    folder = Path(base_model).expanduser()
    return _check(folder, _state(folder)) if (folder / "tokenizer.json").is_file() else None


@lru_cache(maxsize=64)
def _check(folder: Path, state: State) -> ModelCheck:
    """Raises OSError, SubprocessError, ValidationError when no check came about; that is not remembered."""
    del state
    command = [sys.executable, "-m", "rft.chat.check", str(folder)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=_PATIENCE_S)
    return ModelCheck.model_validate_json(done.stdout)


def _state(folder: Path) -> State:
    """Size and time of what the check reads."""
    paths = [folder / name for name in _FILES]
    stats = [path.stat() if path.is_file() else None for path in paths]
    return tuple(None if stat is None else (stat.st_size, stat.st_mtime_ns) for stat in stats)
