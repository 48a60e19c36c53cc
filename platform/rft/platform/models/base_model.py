"""One base model with what its check finds: a process of its own, once for each state of its files."""

import asyncio
import logging
from subprocess import SubprocessError

from pydantic import ValidationError

from rft.core.model_check import ModelCheck, cannot_sample
from rft.core.spec import Engine
from rft.core.update_spec import MANY_STEPS, UpdateWanted, resolve_update
from rft.platform.models.schemas import BaseModelObject, ModelAuto, ModelMemory
from rft.platform.orders.base_models import base_models, chat_spec
from rft.platform.orders.model_checks import check_files
from rft.platform.settings import Settings

_LOG = logging.getLogger(__name__)


async def checked_base_model(settings: Settings, name: str) -> BaseModelObject | None:
    """None where its files are not here, or where the check breaks."""
    path, chat = base_models(settings)[name], chat_spec(name, settings)
    try:
        check = await asyncio.to_thread(check_files, path, chat, "default")
    except (OSError, SubprocessError, ValidationError) as error:
        _LOG.warning("the model '%s' could not be looked at: %s", name, error)
        return None
    return None if check is None else _to_object(check, settings.engine)


def _to_object(check: ModelCheck, engine: str) -> BaseModelObject:
    problem = check.problem
    if problem is None and check.engine_problem is not None and engine == Engine.TRANSFORMERS:
        problem = cannot_sample(check.engine_problem)
    engines = [] if check.problem is not None else [Engine.VLLM.value]
    if check.problem is None and check.engine_problem is None:
        engines.insert(0, Engine.TRANSFORMERS.value)
    return BaseModelObject(
        problem=problem,
        chat_format=check.chat_format,
        template_fingerprint=check.template_fingerprint,
        stop_tokens=list(check.stop_tokens),
        takes_parallel_calls=check.takes_parallel_calls,
        thinking_switch=check.thinking_switch,
        engines=engines,
        engine_problem=check.engine_problem,
        memory=_memory(check),
        auto=_auto(check),
    )


def _memory(check: ModelCheck) -> ModelMemory | None:
    figures = check.figures
    if figures is None:
        return None
    return ModelMemory(
        parameters=figures.parameters,
        weights_bytes=figures.weights_bytes,
        adapter_bytes=figures.adapter_bytes,
        activation_bytes_per_token=figures.activation_bytes_per_token,
        training_bytes=figures.training_bytes,
        cache_bytes_per_token=None if figures.cache is None else figures.cache.bytes_per_token,
        sampling_bytes=figures.sampling_bytes,
    )


def _auto(check: ModelCheck) -> ModelAuto | None:
    figures = check.figures
    if figures is None or check.auto_engine is None:
        return None
    update = resolve_update(UpdateWanted(), steps=MANY_STEPS, parameters=figures.parameters)
    return ModelAuto(
        engine=check.auto_engine,
        max_context_tokens=figures.max_context_tokens,
        micro_batch_tokens=figures.micro_batch_tokens,
        conversations_at_once=None if figures.cache is None else figures.cache.conversations,
        lora_rank=figures.adapter_rank,
        lora_layers=list(figures.adapter_layers),
        lr_scheduler_type=update.lr_scheduler_type,
        warmup_steps=update.warmup_steps,
        temperature=update.temperature,
        beta=update.beta,
    )
