"""Which engine a run samples with."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import cast

from rft.chat.template_format import TemplateChatFormat
from rft.core import spec as run_spec
from rft.core.errors import RunFailed
from rft.core.model_check import cannot_sample
from rft.core.spec import RunSecrets, RunSpec
from rft.engines.base import Engine
from rft.rollouts.sampler import RolloutHolder

Factory = Callable[[Path, RunSpec, TemplateChatFormat], Engine]
"""What `package.module:factory` names: base model directory, spec and chat format in, engine out."""
_EARLIER = "rft.trainer.engines"
"""Where this package was; orders and settings may still name factories by it."""


def open_engine(spec: RunSpec, secrets: RunSecrets, chat_format: TemplateChatFormat, folder: Path) -> Engine:
    """The engine the spec asks for, ready for its first version. Raises RunFailed, RunPaused, UnusableModel.

    `folder`: where it may keep what belongs to it; servers on other machines must see it, too.
    """
    engine = _opened(spec, secrets, chat_format, folder)
    if spec.hyperparameters.max_staleness and not isinstance(engine, RolloutHolder):
        raise RunFailed(
            "engine_holds_one_version",
            f"The engine that samples this model, {type(engine).__name__}, holds one policy version at a time: its"
            " rollouts cannot go on while the policy is updated. Order max_staleness 0, or the engine vllm.",
            "method.reinforcement.hyperparameters.max_staleness",
        )
    return engine


def _opened(spec: RunSpec, secrets: RunSecrets, chat_format: TemplateChatFormat, folder: Path) -> Engine:
    if spec.engine == run_spec.Engine.VLLM:
        # Late: only engines that need transformers wait for it.
        from rft.engines.vllm.open_engine import open_vllm_engine

        return open_vllm_engine(spec, secrets, folder)
    if spec.engine != run_spec.Engine.TRANSFORMERS:
        return _factory(spec.engine)(Path(spec.base_model), spec, chat_format)
    return transformers_engine(Path(spec.base_model), spec, chat_format)


def transformers_engine(base_model: Path, spec: RunSpec, chat_format: TemplateChatFormat) -> Engine:
    """A copy of the base model in this process: slots where every layer has full attention, else pages.

    Raises UnusableModel.
    """
    from rft.engines.architecture import engine_problem, read_config  # late, as above
    from rft.engines.base_model import load_base_model, max_context_tokens
    from rft.engines.paged_engine import PagedEngine
    from rft.engines.slot_engine import SlotEngine
    from rft.engines.slot_fit import supports
    from rft.engines.tokenizer import UnusableModel

    del chat_format
    problem = engine_problem(read_config(str(base_model)))
    if problem is not None:
        raise UnusableModel(f"the model {base_model} cannot be trained: {cannot_sample(problem)}")
    model = load_base_model(str(base_model))
    limit, threads = max_context_tokens(model.config, spec.chat.max_context_tokens), spec.torch_threads
    if not supports(model):
        return PagedEngine(model, max_context_tokens=limit, threads=threads)
    has_versions = spec.hyperparameters.max_staleness > 0
    return SlotEngine(model, max_context_tokens=limit, threads=threads, has_versions=has_versions)


def _factory(name: str) -> Factory:
    module, _, attribute = name.partition(":")
    if module == _EARLIER or module.startswith(f"{_EARLIER}."):
        module = module.replace(_EARLIER, "rft.engines", 1)
    try:
        return cast(Factory, getattr(importlib.import_module(module), attribute))
    except (ImportError, AttributeError, ValueError) as error:
        raise RunFailed(
            "unknown_engine",
            f"engine {name!r} is neither `transformers`, nor `vllm`, nor a `package.module:factory`: {error}",
        ) from error
