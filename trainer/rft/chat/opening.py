"""From a model's folder to the chat format that fits it, proven by a round trip."""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from pathlib import Path

from pydantic import JsonValue

from rft.chat.errors import ChatTemplateError
from rft.chat.formats import AUTO, CONTROL_LITERALS, FORMATS, Format, candidates
from rft.chat.model_folder import ModelFolder, read_model_folder
from rft.chat.model_tokenizer import ModelTokenizer, token_id
from rft.chat.probe import RoundTrip, prove
from rft.chat.saved_chat import CHAT_RECORD, ChatRecord, SavedChat, read_saved_chat
from rft.chat.template import ChatTemplate
from rft.chat.template_format import TemplateChatFormat
from rft.chat.template_messages import template_tool
from rft.chat.thinking import THINK_OPEN
from rft.chat.thinking_switch import thinking_options, with_effort
from rft.core.base import JsonObject
from rft.core.messages import ToolSchema

_CONVERSATION: tuple[JsonObject, ...] = (
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Why?"},
    {"role": "assistant", "content": "Because."},
    {"role": "user", "content": "And?"},
)
_TOOL_NAME = "get_reason"
_TOOL = template_tool(ToolSchema(name=_TOOL_NAME, description="A reason.", parameters={"type": "object"}))
"""By which it is seen whether a template writes as another does."""


@dataclass(frozen=True, slots=True)
class OpenedChat:
    """A chat format in use, and how it was found."""

    chat_format: TemplateChatFormat
    name: str
    """As `chat_format` names it."""
    template: ChatTemplate
    is_shipped: bool
    """The template is ours: the model's own has no place for tools."""
    round_trip: RoundTrip
    folder: ModelFolder
    """What it was made of."""


def open_chat(
    folder: ModelFolder,
    *,
    wanted: str = AUTO,
    options: Mapping[str, JsonValue] | None = None,
    reasoning_effort: str = "default",
    now: datetime | None = None,
) -> OpenedChat:
    """The first format whose calls, results and second turn come back as they went in. Raises ChatTemplateError.

    `wanted`: a name out of `FORMATS`, or `auto`. `options` go to the template; what they leave open of its thinking
    follows from `reasoning_effort`.
    """
    if wanted != AUTO and wanted not in FORMATS:
        raise ChatTemplateError(f"there is no chat format {wanted!r}; there are {', '.join((AUTO, *FORMATS))}")
    reason: ChatTemplateError | None = None
    for known, template, is_shipped in candidates(wanted, folder.template, folder.model_type):
        try:
            read = {**thinking_options(template, reasoning_effort), **(options or {})}
            if is_shipped:
                read["opens_thought"] = _opens_thought(folder)
            used = ChatTemplate(template, folder.special_tokens, read, now=now)
            if is_shipped and wanted == AUTO and not known.replaces:
                _require_same_turns(folder, used)
            return _open(folder, known, used, is_shipped)
        except ChatTemplateError as error:
            reason = error if reason is None or is_shipped else reason
    if reason is not None:
        raise reason
    if folder.template is None:
        raise ChatTemplateError(
            "the model has no chat template; put one that knows tools into its folder as chat_template.jinja"
        )
    raise ChatTemplateError(
        "the chat template has no place for tool calls in any syntax known here"
        f" ({', '.join(FORMATS)}); give the model a template for tool use, or another model"
    )


def saved_chat(chat: OpenedChat) -> SavedChat:
    """What checkpoints keep of a chat in use."""
    tokenizer = hashlib.sha256(chat.folder.tokenizer_json.encode(errors="replace"))
    record = ChatRecord(
        chat_format=chat.name,
        chat_template_kwargs=dict(chat.template.options),
        rendered_as_of=chat.template.now,
        special_tokens=dict(chat.folder.special_tokens),
        stop_token_ids=chat.chat_format.stop_token_ids,
        tokenizer_fingerprint=tokenizer.hexdigest()[:16],
    )
    return SavedChat(record, chat.template.source)


def open_saved_chat(folder: Path, *, reasoning_effort: str | None = None) -> TemplateChatFormat:
    """The chat format that a checkpoint was trained with, from its folder alone. Raises ChatTemplateError.

    `reasoning_effort`: another one than it was trained with, where the template has a switch for it.
    """
    saved = read_saved_chat(folder)
    if saved is None:
        raise ChatTemplateError(f"{folder} holds no {CHAT_RECORD}")
    record = saved.record
    if record.chat_format not in FORMATS:
        raise ChatTemplateError(f"there is no chat format {record.chat_format!r}; there are {', '.join(FORMATS)}")
    options = dict(record.chat_template_kwargs)
    if reasoning_effort is not None:
        options = with_effort(options, saved.template, reasoning_effort)
    template = ChatTemplate(saved.template, record.special_tokens, options, now=record.rendered_as_of)
    tokenizer = ModelTokenizer(
        read_model_folder(folder).tokenizer_json, template, record.stop_token_ids, control_literals=CONTROL_LITERALS
    )
    return TemplateChatFormat(tokenizer, FORMATS[record.chat_format].syntax)


def _open(folder: ModelFolder, known: Format, template: ChatTemplate, is_shipped: bool) -> OpenedChat:
    tokenizer = ModelTokenizer(
        folder.tokenizer_json, template, _stop_ids(folder, known), control_literals=CONTROL_LITERALS
    )
    chat_format = TemplateChatFormat(tokenizer, known.syntax)
    return OpenedChat(chat_format, known.syntax.name, template, is_shipped, prove(chat_format), folder)


def _require_same_turns(folder: ModelFolder, shipped: ChatTemplate) -> None:
    """A model that was taught other turns or tools than the shipped template writes has its marks, and no more.

    Raises ChatTemplateError.
    """
    if folder.template is None:
        return
    own = ChatTemplate(folder.template, folder.special_tokens, shipped.options, now=shipped.now)
    for messages, tools in product((_CONVERSATION, _CONVERSATION[1:]), ((), (_TOOL,))):
        try:
            written = own.render(messages, tools, add_generation_prompt=True)
        except ChatTemplateError:
            continue  # Not every template takes system texts, and some break without tools, or with them.
        if tools and _TOOL_NAME not in written:
            continue  # It knows no tools.
        if written.strip() != shipped.render(messages, tools, add_generation_prompt=True).strip():
            raise ChatTemplateError(
                "the chat template has no place for tool calls as they are known here, and"
                f" {'shows tools' if tools else 'writes turns'} otherwise than the template that is shipped for models"
                " with its marks; give the model a template for tool use, or name the `chat_format` whose template it"
                " shall have"
            )


def _opens_thought(folder: ModelFolder) -> bool:
    """Whether the model's own template begins each turn with a thought; one that cannot be rendered has none."""
    question: JsonObject = {"role": "user", "content": "probe"}
    with suppress(ChatTemplateError):
        own = ChatTemplate(folder.template or "", folder.special_tokens)
        return own.render([question], (), add_generation_prompt=True).rstrip().endswith(THINK_OPEN)
    return False


def _stop_ids(folder: ModelFolder, known: Format) -> tuple[int, ...]:
    """The tokenizer's end of sequence first, then what the generation configuration and the syntax add."""
    eos = folder.special_tokens.get("eos_token")
    literals = (*(() if eos is None else (eos,)), *known.syntax.stop_literals)
    found = [token_id(folder.tokenizer_json, literal) for literal in literals]
    if eos is None or found[0] is None:
        raise ChatTemplateError("the tokenizer has no end-of-sequence token (`eos_token` in tokenizer_config.json)")
    wanted = [found[0], *folder.eos_ids, *(token for token in found[1:] if token is not None)]
    return tuple(dict.fromkeys(wanted))
