"""Reading regular expressions without compiling them: compiling takes seconds for some of a few hundred characters."""

import importlib
from typing import Any

# The standard library's own reader of patterns; there is no public name for it.
_PARSER: Any = importlib.import_module("re._parser")


def parse_pattern(pattern: str) -> Any:
    """Its parts, as pairs of an operation and what that takes. Linear in the pattern's length.

    Raises re.error, OverflowError, ValueError for a number of more digits than Python reads, RecursionError.
    """
    return _PARSER.parse(pattern)
