"""Names of fine-tuned models: `ft:{base}:{organization}:{suffix}:{8 characters}`, checkpoints `:ckpt-step-{n}`."""

import re
from dataclasses import dataclass

from rft.platform.jobs.repository import JobRow
from rft.platform.settings import Settings

_TAIL_CHARACTERS = 8
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
_NAME = re.compile(
    rf"^(?P<final>ft:.+:[^:]*:[^:]*:(?P<tail>[0-9A-Za-z]{{{_TAIL_CHARACTERS}}}))(?::ckpt-step-(?P<step>\d{{1,9}}))?$"
)


@dataclass(frozen=True, slots=True)
class ModelName:
    """A fine-tuned model's name, taken apart."""

    final: str
    """The name without the checkpoint's part."""
    job_tail: str
    """The last characters of the job's id: how the job is found."""
    step: int | None
    """None for the job's final model."""


def final_model_name(*, base_model: str, organization: str, suffix: str | None, job_id: str) -> str:
    """The name a job's model gets when the job succeeds; known from the job's creation on."""
    middle = ":".join(_UNFIT.sub("-", part).strip("-") for part in (organization, suffix or ""))
    return f"ft:{base_model}:{middle}:{job_id[-_TAIL_CHARACTERS:]}"


def checkpoint_model_name(final_name: str, step: int) -> str:
    """The name of one checkpoint of a job."""
    return f"{final_name}:ckpt-step-{step}"


def parse(name: str) -> ModelName | None:
    """A fine-tuned model's name taken apart; None for any other text."""
    match = _NAME.match(name)
    if match is None:
        return None
    step = match["step"]
    return ModelName(final=match["final"], job_tail=match["tail"], step=None if step is None else int(step))


def fine_tuned_model_name(job: JobRow, settings: Settings) -> str:
    """The name of a job's model: the one it got, or the one it will get."""
    return job.fine_tuned_model or final_model_name(
        base_model=job.model, organization=settings.organization, suffix=job.suffix, job_id=job.id
    )
