"""What a model's folder says of its tokenizer and its chat, read without transformers."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from rft.chat.errors import ChatTemplateError
from rft.core.base import JsonObject


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """The texts of a model that its chat depends on."""

    tokenizer_json: str
    template: str | None
    """The chat template; of several, the one for tool use."""
    special_tokens: Mapping[str, str]
    """`bos_token` and the like by name, as templates read them."""
    eos_ids: tuple[int, ...]
    """What the model's generation configuration adds to the tokenizer's own end of sequence."""
    model_type: str | None
    """The architecture, where there is a `config.json`."""


def read_model_folder(folder: Path) -> ModelFolder:
    """Raises ChatTemplateError when there is no `tokenizer.json`, or one of the files cannot be read."""
    config = _read_object(folder / "tokenizer_config.json")
    model = _read_object(folder / "config.json")
    special = dict(_special_tokens({**_read_object(folder / "special_tokens_map.json"), **config}))
    return ModelFolder(
        tokenizer_json=_with_added_tokens(_read_tokenizer(folder), config, special),
        template=_template(folder, config),
        special_tokens=special,
        eos_ids=_eos_ids(_read_object(folder / "generation_config.json")),
        model_type=_string(model.get("model_type")),
    )


def _read_tokenizer(folder: Path) -> JsonObject:
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise ChatTemplateError(
            f"{folder} holds no tokenizer.json; save the tokenizer in that form (AutoTokenizer.from_pretrained(...)"
            ".save_pretrained(...) writes it)"
        )
    return _read_object(path)


def _read_object(path: Path) -> JsonObject:
    """Empty where there is no such file."""
    try:
        found = json.loads(path.read_bytes()) if path.is_file() else {}
    except (OSError, ValueError, RecursionError) as error:
        raise ChatTemplateError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ChatTemplateError(f"{path} holds no JSON object")
    return cast(JsonObject, found)


def _template(folder: Path, config: JsonObject) -> str | None:
    """`chat_template.jinja` outranks what stands in the configuration, as in transformers."""
    for path in (folder / "additional_chat_templates" / "tool_use.jinja", folder / "chat_template.jinja"):
        if path.is_file():
            try:
                return path.read_text()
            except (OSError, ValueError) as error:
                raise ChatTemplateError(f"{path} cannot be read: {error}") from error
    processor = _read_object(folder / "chat_template.json")
    found = config.get("chat_template", processor.get("chat_template"))
    if isinstance(found, list):
        named = {entry.get("name"): entry.get("template") for entry in found if isinstance(entry, dict)}
        found = named.get("tool_use", named.get("default"))
    return _string(found)


def _special_tokens(config: JsonObject) -> Iterator[tuple[str, str]]:
    """Names that end in `_token`; a token may be an object with its `content`."""
    extra = config.get("extra_special_tokens")
    for name, value in {**(extra if isinstance(extra, dict) else {}), **config}.items():
        content = value.get("content") if isinstance(value, dict) else value
        if name.endswith("_token") and isinstance(content, str):
            yield name, content


def _with_added_tokens(tokenizer: JsonObject, config: JsonObject, special: Mapping[str, str]) -> str:
    """`tokenizer.json` with the tokens that only its configuration adds, which transformers adds on loading."""
    listed = tokenizer.get("added_tokens")
    added = [token for token in (listed if isinstance(listed, list) else []) if isinstance(token, dict)]
    known = {_string(token.get("content")) for token in added}
    model = tokenizer.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    ids: JsonObject = vocabulary if isinstance(vocabulary, dict) else {}
    declared = config.get("added_tokens_decoder")
    for token_id, token in (declared if isinstance(declared, dict) else {}).items():
        content = _string(token.get("content")) if isinstance(token, dict) else None
        if isinstance(token, dict) and content is not None and content not in known and token_id.isdecimal():
            added.append({**_ADDED, **token, "id": int(token_id)})
            known.add(content)
    for content in special.values():
        if content not in known and content in ids:
            added.append({**_ADDED, "content": content, "id": ids[content], "special": True})
            known.add(content)
    added.sort(key=lambda token: cast(int, token.get("id", 0)))
    return json.dumps({**tokenizer, "added_tokens": cast(JsonValue, added)})


_ADDED: JsonObject = {
    "single_word": False,
    "lstrip": False,
    "rstrip": False,
    "normalized": False,
    "special": False,
}


def _eos_ids(config: Mapping[str, JsonValue]) -> tuple[int, ...]:
    found = config.get("eos_token_id")
    many: Sequence[JsonValue] = found if isinstance(found, list) else [found]
    return tuple(token for token in many if isinstance(token, int))


def _string(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None
