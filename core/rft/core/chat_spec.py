"""How a base model's chat is rendered, read and limited."""

from typing import Annotated, cast

from pydantic import Field, model_validator

from rft.core.base import JsonObject, Record

LONGEST_CONTEXT_TOKENS = 16_384
"""Rollouts longer than this are cut, whatever the model allows, where nobody says otherwise: their keys and values
would fill the memory."""


class ChatSpec(Record):
    """Beside the model itself; all of it has a default that fits most models."""

    chat_format: str = "auto"
    """A chat format by name; `auto` finds it by what the model's template writes."""
    max_context_tokens: Annotated[int, Field(ge=256)] | None = None
    """Prompt and completion at most; None: what the model allows, and 16,384 at most."""
    chat_template_kwargs: JsonObject = Field(default_factory=dict)
    """What else the chat template reads, `{"enable_thinking": false}` for one."""


class JobChat(ChatSpec):
    """The same as it stood when a job was created: what is registered later changes no job."""

    template_fingerprint: str | None = None
    """Of the chat template that was found then; None where nobody looked at the model."""


class BaseModelSetting(ChatSpec):
    """One base model as an operator registers it; a text is its path alone."""

    path: str
    """A local directory with a Hugging Face causal LM, or a hub name."""

    @model_validator(mode="before")
    @classmethod
    def _read_a_path(cls, value: object) -> object:
        if not isinstance(value, str | dict | BaseModelSetting):
            raise ValueError("neither a path nor an object with a `path`")
        return {"path": value} if isinstance(value, str) else cast("object", value)
