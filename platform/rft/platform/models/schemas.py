"""Models and checkpoint permissions on the wire."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from rft.platform.api.pagination import Listed
from rft.platform.api.wire import TextBody, must_be


class ModelMemory(BaseModel):
    """What a base model takes of this machine, in single precision."""

    parameters: int
    weights_bytes: int
    adapter_bytes: int
    """An adapter of the usual rank with gradient and optimizer."""
    activation_bytes_per_token: int | None
    """What an update keeps of each token that it computes at once; null where that is not known."""
    training_bytes: int | None
    """An update at its peak, with `auto.micro_batch_tokens` at once."""
    cache_bytes_per_token: int | None
    """Keys and values in the engine `transformers`; null where it cannot hold the model."""
    sampling_bytes: int | None
    """The engine `transformers` with a full cache, beside the training."""


class ModelAuto(BaseModel):
    """What is chosen where nobody chooses."""

    engine: str
    max_context_tokens: int
    """Prompt and completion."""
    micro_batch_tokens: int | None
    conversations_at_once: int | None
    """In the engine `transformers`."""
    lora_rank: int
    lora_layers: list[str]
    """By the last part of their name."""
    lr_scheduler_type: str
    warmup_steps: int
    """In a long job."""
    temperature: float
    beta: float


class BaseModelObject(BaseModel):
    """What `rft models check` finds."""

    problem: str | None
    """Why a job that starts from it is refused; null where none is."""
    chat_format: str | None
    template_fingerprint: str | None
    stop_tokens: list[str]
    takes_parallel_calls: bool
    thinking_switch: str | None
    """The variable of its chat template that says how much it thinks."""
    engines: list[str]
    """Those that can sample from it."""
    engine_problem: str | None
    """Why the engine `transformers` is not among them."""
    memory: ModelMemory | None
    """Null where its layers could not be looked at."""
    auto: ModelAuto | None


class ModelObject(BaseModel):
    """A base model, a fine-tuned model or one of its checkpoints."""

    id: str
    object: Literal["model"] = "model"
    created: int
    """Unix time in seconds; 0 where nobody knows."""
    owned_by: str
    """`system` for base models, otherwise the organization."""
    fine_tuning_job_id: str | None = None
    """Ours: the job that made it."""
    base_model: BaseModelObject | None = None
    """Ours, where one base model is asked for: what it can do and takes. Null where its files are not here."""
    trained_from: str | None = None
    """Ours: its base model, by name; None for a base model."""
    step_number: int | None = None
    """Ours: the step whose adapter it is."""
    valid_reward: float | None = None
    """Ours: mean validation reward at that step; None where it was not evaluated."""
    valid_reward_low: float | None = None
    """Ours: the 95 % interval of that mean."""
    valid_reward_high: float | None = None
    path: str | None = None
    """Ours: where its files lie on the platform's host; a hub name for base models that lie elsewhere."""


class ModelList(BaseModel):
    """All models; the contract does not page them."""

    object: Literal["list"] = "list"
    data: list[ModelObject]


class ModelDeleted(BaseModel):
    """The reply to a deletion."""

    id: str
    object: Literal["model"] = "model"
    deleted: Literal[True] = True


class PermissionsWanted(TextBody):
    """Who else may use a checkpoint."""

    project_ids: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=128)]],
        Field(min_length=1, max_length=100),
        must_be("a list of 1 to 100 project ids"),
    ]


class PermissionObject(Listed):
    """A project that may use a checkpoint."""

    object: Literal["checkpoint.permission"] = "checkpoint.permission"
    created_at: int
    project_id: str


class PermissionDeleted(BaseModel):
    """The reply to a deletion."""

    id: str
    object: Literal["checkpoint.permission"] = "checkpoint.permission"
    deleted: Literal[True] = True
