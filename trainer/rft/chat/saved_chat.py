"""The chat that a model was trained with, kept with its checkpoints: whoever serves one renders the same tokens.

`chat_template.jinja` holds the template in use and `chat.json` all that it was rendered with. `rft.chat.opening` opens
them; this module imports nothing that takes long.
"""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from rft.chat.errors import ChatTemplateError
from rft.core.base import JsonObject, Record

CHAT_RECORD = "chat.json"
CHAT_TEMPLATE = "chat_template.jinja"


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


@dataclass(frozen=True, slots=True)
class SavedChat:
    """A record and its template."""

    record: ChatRecord
    template: str

    def write(self, folder: Path) -> None:
        """Into a checkpoint's folder, in place of the template that the tokenizer was saved with."""
        (folder / CHAT_TEMPLATE).write_bytes(self.template.encode())
        (folder / CHAT_RECORD).write_text(self.record.model_dump_json(indent=2) + "\n")

    def write_once(self, folder: Path) -> None:
        """Into a folder of its own, at once or not at all; one that is there stays as it is."""
        if folder.exists():
            return
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        unfinished.mkdir(exist_ok=True)
        self.write(unfinished)
        unfinished.rename(folder)

    def changed_since(self, earlier: "SavedChat") -> tuple[str, ...]:
        """What is no longer as it was, in words; empty where the same conversation has the same token ids."""
        now, then = self.record, earlier.record
        pairs = {
            "the chat template": (self.template, earlier.template),
            "the tokenizer": (now.tokenizer_fingerprint, then.tokenizer_fingerprint),
            "the special tokens": (now.special_tokens, then.special_tokens),
            "the tokens that end a turn": (now.stop_token_ids, then.stop_token_ids),
            "the chat format": (now.chat_format, then.chat_format),
            "the variables of the chat template": (now.chat_template_kwargs, then.chat_template_kwargs),
        }
        return tuple(name for name, (one, other) in pairs.items() if one != other)


def read_saved_chat(folder: Path) -> SavedChat | None:
    """None in folders of releases that saved none. Raises ChatTemplateError."""
    if not (folder / CHAT_RECORD).is_file():
        return None
    try:
        record = ChatRecord.model_validate_json((folder / CHAT_RECORD).read_bytes())
        return SavedChat(record, (folder / CHAT_TEMPLATE).read_bytes().decode())
    except (OSError, ValueError) as error:
        raise ChatTemplateError(f"the chat saved in {folder} cannot be read: {error}") from error
