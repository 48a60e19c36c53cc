"""What goes along with an exported adapter: where it comes from, and how to use it. Pure."""

import json
from collections.abc import Mapping, Sequence

from rft.platform.checkpoints.repository import CheckpointRow
from rft.platform.jobs.repository import JobRow
from rft.platform.models.schemas import ModelObject

_VALIDATION = "full_valid_mean_reward"
_CHOSEN_BY_VALIDATION = (
    "Validation rewards choose a job's checkpoint: on rows that chose nothing, expect a little less than they say."
)
_CHOSEN_BY_TRAINING = (
    "The job has no validation file: training rewards choose its checkpoint, of rows that differ from step to step."
)


def model_card(
    model: ModelObject, job: JobRow, steps: Sequence[CheckpointRow], sha256: Mapping[str, str | None]
) -> str:
    """Markdown. `steps`: the job's checkpoints, kept or not, oldest first. `sha256`: of its files, by their ids; None
    for one that is gone."""
    files = "\n".join(
        f"| {param.replace('_', ' ')} | `{file_id}`, {_digest(sha256[file_id])} |" for param, file_id in job.files
    )
    chosen = _CHOSEN_BY_TRAINING if job.validation_file is None else _CHOSEN_BY_VALIDATION
    resolved = "{}" if job.resolved is None else job.resolved.model_dump_json(indent=2)
    return f"""# {model.id}

A LoRA adapter for `{model.trained_from}`, trained by reinforcement learning with tools; exported with `--merged`, that
model with the adapter in it.

| | |
|---|---|
| base model | `{job.base_model_path}` |
| job | `{job.id}`, created {job.created_at:%Y-%m-%d %H:%M} UTC, seed {job.seed} |
| step | {model.step_number} |
| validation reward at this step | {_number(model.valid_reward)} |
{files}

{chosen}

| step | train reward | validation reward |
|---|---|---|
{_curve(steps)}

## Use it

```python
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

# Where transformers knows the base model as one that also sees, and as no other: AutoModelForImageTextToText.
model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained({json.dumps(job.base_model_path)}), ".")
tokenizer = AutoTokenizer.from_pretrained(".")
```

Exported with `--merged` it needs neither peft nor the base model: `AutoModelForCausalLM.from_pretrained(".")`.

A vLLM server applies an adapter where the names of its layers are those of the model that it serves, and else answers
with the base model without a word: of models that also see, such as Qwen3.5, export with `--merged`.

`chat_template.jinja` is the template it was trained with, `chat.json` says what else its prompts depend on.

## Hyperparameters

```json
{resolved}
```
"""


def validation_reward(checkpoint: CheckpointRow | None) -> float | None:
    """The mean reward of its step's evaluation."""
    return None if checkpoint is None else _metric(checkpoint, _VALIDATION)


def validation_interval(checkpoint: CheckpointRow | None) -> tuple[float | None, float | None]:
    """Where that mean lies with a confidence of 95 %; None where the evaluation did not tell."""
    if checkpoint is None:
        return None, None
    return _metric(checkpoint, f"{_VALIDATION}_low"), _metric(checkpoint, f"{_VALIDATION}_high")


def _curve(steps: Sequence[CheckpointRow]) -> str:
    rows = (
        f"| {step.step} | {_number(_metric(step, 'train_mean_reward'))} | {_number(_metric(step, _VALIDATION))} |"
        for step in steps
    )
    return "\n".join(rows)


def _metric(checkpoint: CheckpointRow, name: str) -> float | None:
    value = checkpoint.metrics.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _digest(sha256: str | None) -> str:
    return "deleted" if sha256 is None else f"sha256 `{sha256}`"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
