"""Base models are looked at before a job starts from one: by a process of its own, once for each state of its files."""

import asyncio
import json
import logging
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from rft.core.chat_spec import ChatSpec
from rft.core.model_check import ModelCheck, cannot_sample
from rft.core.spec import Engine
from rft.platform.api.errors import BadRequest
from rft.platform.orders.base_models import STARTER

_LOG = logging.getLogger(__name__)
_PATIENCE_S = 60.0
_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json", "config.json")

State = tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class ModelLook:
    """What came of looking at a model."""

    check: ModelCheck | None = None
    """None where there was nothing to look at, or where the check broke."""
    broken: str | None = None
    """How the check itself broke, in words for a customer."""


async def look_at_model(
    name: str, base_model: str, chat: ChatSpec, reasoning_effort: str, *, engine: str = Engine.TRANSFORMERS
) -> ModelLook:
    """What it can do. Raises BadRequest when it cannot carry tools, or when `engine` cannot sample from it.

    Only what lies on this machine with a `tokenizer.json` can be looked at; the trainer looks at everything. The
    starter needs no look: its tests prove it.
    """
    if name == STARTER:
        return ModelLook()
    try:
        check = await asyncio.to_thread(check_files, base_model, chat, reasoning_effort)
    except (OSError, subprocess.SubprocessError, ValidationError) as error:
        _LOG.warning("the model '%s' could not be looked at, its trainer will: %s", name, error)
        return ModelLook(broken=_how_it_broke(error))
    if check is not None and check.problem is not None:
        raise BadRequest(
            f"The model '{name}' cannot be trained to use tools: {check.problem}.", param="model", code="unusable_model"
        )
    if check is not None and check.engine_problem is not None and engine == Engine.TRANSFORMERS:
        raise BadRequest(
            f"The model '{name}' cannot be trained: {cannot_sample(check.engine_problem)}.",
            param="model",
            code="unusable_model",
        )
    return ModelLook(check)


def _how_it_broke(error: Exception) -> str:
    """Without paths and commands, which are the operator's."""
    match error:
        case subprocess.TimeoutExpired():
            return f"its check took longer than {_PATIENCE_S:g} s"
        case subprocess.CalledProcessError():
            return f"its check ended with status {error.returncode}"
        case ValidationError():
            return "its check answered what cannot be read"
        case _:
            return "its check could not be started"


def check_files(base_model: str, chat: ChatSpec, reasoning_effort: str) -> ModelCheck | None:
    """What a process of its own finds in the model's folder; None where there is nothing to look at.

    Raises OSError, SubprocessError, ValidationError when no check came about.
    """
    folder = Path(base_model).expanduser()
    if not (folder / "tokenizer.json").is_file():
        return None
    kwargs = json.dumps(chat.chat_template_kwargs)
    wanted = (
        "--chat-format",
        chat.chat_format,
        "--chat-template-kwargs",
        kwargs,
        "--reasoning-effort",
        reasoning_effort,
        *(() if chat.max_context_tokens is None else ("--max-context-tokens", str(chat.max_context_tokens))),
    )
    return _check(folder, wanted, _state(folder))


@lru_cache(maxsize=64)
def _check(folder: Path, wanted: tuple[str, ...], state: State) -> ModelCheck:
    """Raises OSError, SubprocessError, ValidationError when no check came about; that is not remembered."""
    del state
    command = [sys.executable, "-m", "rft.trainer.check", *wanted, str(folder)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=_PATIENCE_S)
    return ModelCheck.model_validate_json(done.stdout)


def _state(folder: Path) -> State:
    """Size and time of what the check reads."""
    paths = [folder / name for name in _FILES]
    stats = [path.stat() if path.is_file() else None for path in paths]
    return tuple(None if stat is None else (stat.st_size, stat.st_mtime_ns) for stat in stats)
