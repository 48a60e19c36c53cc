"""The switch by which a chat template thinks more or less, where it has one."""

from collections.abc import Mapping

import jinja2
from jinja2 import meta
from pydantic import JsonValue

from rft.chat.template import chat_environment

_LEVELS = "reasoning_effort"
_OFF_SWITCHES = ("enable_thinking", "thinking")


def thinking_switch(template: str) -> str | None:
    """The variable that the template reads; None where it has no switch, or cannot be read."""
    read = _read_variables(template)
    return next((name for name in (_LEVELS, *_OFF_SWITCHES) if name in read), None)


def thinking_options(template: str, effort: str) -> Mapping[str, JsonValue]:
    """What `reasoning_effort` of an order sets in the template; nothing for `default` and where there is no switch.

    `minimal` switches thinking off where that can be done. Without levels, all others switch it on.
    """
    read = _read_variables(template)
    off = next((name for name in _OFF_SWITCHES if name in read), None)
    if effort == "default":
        return {}
    if off is not None and (effort == "minimal" or _LEVELS not in read):
        return {off: effort != "minimal"}
    return {_LEVELS: _level(template, effort)} if _LEVELS in read else {}


def _level(template: str, effort: str) -> str:
    """Templates know low, medium and high; some call the highest `xhigh`."""
    wanted = "low" if effort == "minimal" else effort
    is_called_otherwise = wanted == "high" and "'high'" not in template and "'xhigh'" in template
    return "xhigh" if is_called_otherwise else wanted


def _read_variables(template: str) -> set[str]:
    try:
        return meta.find_undeclared_variables(chat_environment().parse(template))
    except jinja2.TemplateError:
        return set()
