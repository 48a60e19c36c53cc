"""Fields that would change an answer elsewhere and are read by nothing here: refused, lest they silently do nothing."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pydantic import BaseModel, JsonValue

from rft.platform.api.errors import BadRequest
from rft.platform.orders.unknown_fields import refuse_misspelled

_ANOTHER_DISTRIBUTION = "is not supported: log-probabilities would be those of another distribution"
_NO_GRAMMAR = "is not supported; 'response_format', or 'text.format' of responses, holds an answer to a JSON schema"
_AS_TRAINED = "is not supported: the chat is rendered as in training; see 'reasoning_effort' for thinking"
_NOT_SUPPORTED = "is not supported"
_UNREAD: dict[str, tuple[str, Sequence[JsonValue]]] = {
    "top_k": (_ANOTHER_DISTRIBUTION, (0, -1)),
    "min_p": (_ANOTHER_DISTRIBUTION, (0,)),
    **dict.fromkeys(("repetition_penalty", "length_penalty"), (_ANOTHER_DISTRIBUTION, (1,))),
    "min_tokens": (_NOT_SUPPORTED, (0,)),
    "thinking_token_budget": (_NOT_SUPPORTED, ()),
    **dict.fromkeys(("stop_token_ids", "bad_words", "allowed_token_ids"), (_NOT_SUPPORTED, ([],))),
    **dict.fromkeys(("ignore_eos", "use_beam_search", "continue_final_message"), (_NOT_SUPPORTED, (False,))),
    "structured_outputs": (_NO_GRAMMAR, ({},)),
    **dict.fromkeys(("guided_json", "guided_regex", "guided_choice", "guided_grammar"), (_NO_GRAMMAR, ())),
    "chat_template_kwargs": (_AS_TRAINED, ({},)),
    **dict.fromkeys(("chat_template", "enable_thinking", "thinking"), (_AS_TRAINED, ())),
    "verbosity": ("can only be 'medium': models here have no switch for it", ("medium",)),
}
"""By name: why, and the values that ask for nothing; null always does."""


def refuse_unread(
    body: BaseModel,
    *,
    unread: Mapping[str, tuple[str, Sequence[JsonValue]]] = MappingProxyType({}),
    other_names: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Raises BadRequest, which names the field.

    `unread`: further ones, as those of all bodies. `other_names`: what fields of this body are called in others.
    """
    extra, known = body.model_extra or {}, {**_UNREAD, **unread}
    for name, (why, nothing) in known.items():
        refuse_unless_nothing(name, extra.get(name), why, nothing)
    match extra.get("prompt_cache_options"):
        case {"prewarm": prewarm}:
            why = "must be false: no request is answered without an answer"
            refuse_unless_nothing("prompt_cache_options.prewarm", prewarm, why, (False,))
        case _:
            pass
    unset = {name for name, value in extra.items() if value is None}
    refuse_misspelled(body, other_names=other_names, stored=unset | known.keys())


def refuse_unless_nothing(path: str, value: JsonValue, why: str, nothing: Sequence[JsonValue]) -> None:
    """Raises BadRequest for a value that asks for something. `nothing`: those that do not, beside null."""
    if value is not None and value not in nothing:
        raise BadRequest(f"Invalid '{path}': {why}.", param=path, code="invalid_value")
