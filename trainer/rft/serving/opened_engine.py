"""The engine of a serving process: opened as a run's is, without a run."""

import hashlib
from pathlib import Path

from rft.chat.template_format import TemplateChatFormat
from rft.core.chat_spec import JobChat
from rft.core.graders import EndpointGrader
from rft.core.hyperparameters import Hyperparameters, LoraSpec, resolve
from rft.core.spec import RunSecrets, RunSpec
from rft.engines.base import Engine
from rft.engines.choose import open_engine
from rft.serving_wire.records import ServingSpec

_NO_GRADER = EndpointGrader(name="none", url="http://127.0.0.1:9")
"""A run's specification has one; an engine never asks it."""


def name_at_servers(folder: str) -> str:
    """What the names of adapters at vLLM servers begin with: another host unloads those of its own alone."""
    return f"serving-{hashlib.sha256(folder.encode()).hexdigest()[:16]}"


def open_serving_engine(spec: ServingSpec, chat_format: TemplateChatFormat) -> Engine:
    """Raises RunFailed, RunPaused, UnusableModel."""
    run = RunSpec(
        job_id=name_at_servers(spec.folder),
        seed=0,
        base_model=spec.base_model,
        chat=JobChat(**spec.chat.model_dump()),
        model_name="serving",
        hyperparameters=resolve(Hyperparameters(), train_rows=1),
        tools=(),
        grader=_NO_GRADER,
        lora=LoraSpec(rank=spec.lora_rank, alpha=spec.lora_rank),
        engine=spec.engine,
        vllm=spec.vllm,
        torch_threads=spec.torch_threads,
    )
    return open_engine(run, RunSecrets(vllm_api_key=spec.vllm_api_key), chat_format, Path(spec.folder))
