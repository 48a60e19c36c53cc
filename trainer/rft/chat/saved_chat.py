"""The chat that a model was trained with, kept with its checkpoints: whoever serves one renders the same tokens.

`chat_template.jinja` holds the template in use and `chat.json` all that it was rendered with. `rft.chat.opening` opens
them; this module imports nothing that takes long.
"""

import hashlib
import shutil
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal

from rft.chat.errors import ChatTemplateError
from rft.core.base import JsonObject, Record

CHAT_RECORD = "chat.json"
CHAT_TEMPLATE = "chat_template.jinja"
_WEIGHTS = "model.safetensors"
_HASHED_BYTES = 64 << 20
"""Reading that much takes no time that a launch would notice."""


class ChatRecord(Record):
    """`chat.json`: beside template and tokenizer, all that token ids depend on."""

    version: Literal[1] = 1
    chat_format: str
    chat_template_kwargs: JsonObject
    """Everything that the template was given: what sets its thinking, too."""
    rendered_as_of: datetime
    """What templates that print a date print."""
    special_tokens: dict[str, str]
    """`bos_token` and the like by name."""
    stop_token_ids: tuple[int, ...]
    """Tokens that end a turn."""
    tokenizer_fingerprint: str
    """Sixteen hexadecimal digits of the base model's `tokenizer.json` as it was read."""
    weights_fingerprint: str | None = None
    """`weights_fingerprint` of the base model; None in checkpoints of releases that kept none, too."""


@dataclass(frozen=True, slots=True)
class SavedChat:
    """A record and its template."""

    record: ChatRecord
    template: str

    def with_weights_of(self, base_model: str) -> "SavedChat":
        """Bound to them, where they have a fingerprint. Raises OSError."""
        return replace(
            self, record=self.record.model_copy(update={"weights_fingerprint": weights_fingerprint(base_model)})
        )

    def write(self, folder: Path) -> None:
        """Into a checkpoint's folder, in place of the template that the tokenizer was saved with."""
        (folder / CHAT_TEMPLATE).write_bytes(self.template.encode())
        (folder / CHAT_RECORD).write_text(self.record.model_dump_json(indent=2) + "\n")

    def write_once(self, folder: Path, *, is_binding: bool = True) -> None:
        """Into a folder of its own, at once or not at all; one that is there stays as it is, if it `is_binding`."""
        if folder.exists():
            if is_binding:
                return
            shutil.rmtree(folder)
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        unfinished.mkdir(exist_ok=True)
        self.write(unfinished)
        unfinished.rename(folder)

    def changed_since(self, earlier: "SavedChat", *, or_weights: bool = True) -> tuple[str, ...]:
        """What is no longer as it was, in words; empty where the same conversation has the same token ids.

        `or_weights`: whether other weights count, too.
        """
        now, then = self.record, earlier.record
        pairs = {
            "the chat template": (self.template, earlier.template),
            "the tokenizer": (now.tokenizer_fingerprint, then.tokenizer_fingerprint),
            "the special tokens": (now.special_tokens, then.special_tokens),
            "the tokens that end a turn": (now.stop_token_ids, then.stop_token_ids),
            "the chat format": (now.chat_format, then.chat_format),
            "the variables of the chat template": (now.chat_template_kwargs, then.chat_template_kwargs),
        }
        changed = tuple(name for name, (one, other) in pairs.items() if one != other)
        is_other = or_weights and are_other_weights(now.weights_fingerprint, then)
        return (*changed, "the weights") if is_other else changed


def weights_fingerprint(base_model: str) -> str | None:
    """Of weights in one small file: a model that is built on the spot has others on another machine. Raises OSError.

    None for any other, whose weights come from elsewhere and are large.
    """
    weights = Path(base_model) / _WEIGHTS
    if not weights.is_file() or weights.stat().st_size > _HASHED_BYTES:
        return None
    with weights.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def are_other_weights(fingerprint: str | None, then: ChatRecord) -> bool:
    """Whether those of the base model are not what they were; False where one of both is not known."""
    return None not in (fingerprint, then.weights_fingerprint) and fingerprint != then.weights_fingerprint


def read_saved_chat(folder: Path) -> SavedChat | None:
    """None in folders of releases that saved none. Raises ChatTemplateError."""
    if not (folder / CHAT_RECORD).is_file():
        return None
    try:
        record = ChatRecord.model_validate_json((folder / CHAT_RECORD).read_bytes())
        return SavedChat(record, (folder / CHAT_TEMPLATE).read_bytes().decode())
    except (OSError, ValueError) as error:
        raise ChatTemplateError(f"the chat saved in {folder} cannot be read: {error}") from error
