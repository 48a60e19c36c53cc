"""The switch by which a chat template thinks more or less, where it has one."""

from collections.abc import Mapping
from functools import lru_cache

import jinja2
from jinja2 import meta
from pydantic import JsonValue

from rft.chat.template import chat_environment

_LEVELS = "reasoning_effort"
_OFF = ("none", "minimal")
_SHARES = {"low": 0.125, "medium": 0.5}
"""Of a rollout's tokens for the thought of one turn, by effort."""
_OFF_SWITCHES = ("enable_thinking", "thinking")


def thinking_switch(template: str) -> str | None:
    """The variable that the template reads; None where it has no switch, or cannot be read."""
    read = _read_variables(template)
    return next((name for name in (_LEVELS, *_OFF_SWITCHES) if name in read), None)


def thinking_options(template: str, effort: str) -> Mapping[str, JsonValue]:
    """What `reasoning_effort` of an order sets in the template; nothing for `default` and where there is no switch.

    `none` and `minimal` switch thinking off where that can be done. Without levels, all others switch it on.
    """
    is_off = effort in _OFF
    read = _read_variables(template)
    off = next((name for name in _OFF_SWITCHES if name in read), None)
    if effort == "default":
        return {}
    if off is not None and (is_off or _LEVELS not in read):
        return {off: not is_off}
    return {_LEVELS: _level(template, effort)} if _LEVELS in read else {}


def with_effort(options: Mapping[str, JsonValue], template: str, effort: str) -> dict[str, JsonValue]:
    """The template's variables with another effort in place of the one that they hold; the same where there is no
    switch for it."""
    wanted = thinking_options(template, effort)
    if not wanted:
        return dict(options)
    kept = {
        name: value
        for name, value in options.items()
        if name != _LEVELS and (name not in _OFF_SWITCHES or value is not False)
    }
    return {**kept, **wanted}


def default_thought_tokens(template: str, effort: str, max_tokens: int) -> int | None:
    """How long a turn's thought may be where the order says no more than an effort, out of a rollout's tokens.

    None: as long as the model likes. So it is for models whose template knows levels: they were taught them.
    """
    share = _SHARES.get(effort)
    if share is None:
        return None
    read = _read_variables(template)
    if _LEVELS in read or not read & set(_OFF_SWITCHES):
        return None
    return max(1, int(max_tokens * share))


def _level(template: str, effort: str) -> str:
    """Templates know low, medium and high; some call the highest `xhigh`."""
    wanted = "low" if effort in _OFF else effort
    is_called_otherwise = wanted == "high" and "'high'" not in template and "'xhigh'" in template
    return "xhigh" if is_called_otherwise else wanted


@lru_cache(maxsize=8)  # Serving asks for each request, and one parse takes 10 ms and more.
def _read_variables(template: str) -> frozenset[str]:
    try:
        return frozenset(meta.find_undeclared_variables(chat_environment().parse(template)))
    except jinja2.TemplateError:
        return frozenset()
