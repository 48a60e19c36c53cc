"""The models that a job may start from, by configuration."""

from pathlib import Path

from rft.core.chat_spec import ChatSpec, JobChat
from rft.core.model_check import ModelCheck
from rft.platform.api.errors import BadRequest
from rft.platform.settings import Settings

STARTER = "starter"


def base_models(settings: Settings) -> dict[str, str]:
    """Local directory or hub name of every base model, by name."""
    starter = {STARTER: str(settings.starter_dir)} if settings.has_starter else {}
    return starter | settings.base_model_paths


def chat_spec(name: str, settings: Settings) -> ChatSpec:
    """How the model's chat is rendered, read and limited."""
    found = settings.base_models.get(name)
    if found is None:
        return ChatSpec()
    return ChatSpec.model_validate(found.model_dump(include=set(ChatSpec.model_fields)))


def chat_of_job(name: str, settings: Settings, found: ModelCheck | None = None) -> JobChat:
    """What a job that is created now keeps of the model's chat; `found`: what a look at the model told."""
    fingerprint = None if found is None else found.template_fingerprint
    return JobChat(**chat_spec(name, settings).model_dump(), template_fingerprint=fingerprint)


def resolve_base(name: str, settings: Settings) -> str:
    """Where a base model lives. Raises BadRequest, which lists the models that exist."""
    known = base_models(settings)
    if name not in known:
        names = ", ".join(sorted(known)) or "none is registered"
        raise BadRequest(
            f"The model '{name}' does not exist or cannot be fine-tuned. Base models here: {names}.",
            param="model",
            code="model_not_found",
        )
    path = known[name]
    if name != STARTER and path.startswith(("/", "~", ".")) and not Path(path).expanduser().is_dir():
        raise BadRequest(
            f"The model '{name}' is registered, but its directory is missing on this machine.",
            param="model",
            code="model_not_found",
        )
    return path
