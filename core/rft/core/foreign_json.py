"""JSON that somebody else's server or model wrote, and texts in it that UTF-8 cannot hold. Pure."""

import json
import re
import sys
from typing import cast

from pydantic import JsonValue

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_EXACT_DIGITS = 300
"""Python converts integers of a few thousand digits at most, and no float holds more than 309."""


def parse_json(body: bytes) -> JsonValue:
    """What a body says, with any number and any text that JSON can write. Raises ValueError."""
    try:
        return cast("JsonValue", json.loads(body.removeprefix(_BYTE_ORDER_MARK), parse_int=_integer))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def encodable(text: str) -> str:
    """With U+FFFD in place of lone surrogates, which could neither be sent nor stored."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _LONE_SURROGATE.sub("\ufffd", text)
    return text


def _integer(digits: str) -> int | float:
    if len(digits) <= _EXACT_DIGITS:
        return int(digits)
    return min(max(float(digits), -sys.float_info.max), sys.float_info.max)
