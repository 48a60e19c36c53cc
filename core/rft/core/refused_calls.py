"""Tools that answer 4xx to nearly every call, in words that their owner can act on. Pure."""

from collections.abc import Mapping

from rft.core.failure import NOT_FOUND_STATUSES

NEARLY_ALL = 0.9
"""More than this share of a tool's calls."""
FEW_CALLS = 5
"""What fewer calls were answered may be chance."""
_KEY_STATUSES = (401, 403)


def refused_status(refused: Mapping[int, int], calls: int) -> int | None:
    """The status that a tool answers to nearly every call; None where it does not.

    refused: answers by status, those with 4xx alone. calls: all of its calls.
    """
    if calls < FEW_CALLS or sum(refused.values()) <= NEARLY_ALL * calls:
        return None
    return max(refused, key=lambda status: refused[status])


def refusal_advice(tool: str, status: int) -> str:
    """What is wrong, and what to check, as a sentence without its full stop."""
    if status in NOT_FOUND_STATUSES:
        to_check = "check its URL"
    else:
        to_check = "check the header with its key" if status in _KEY_STATUSES else "check what it expects"
    return f"{tool} answered {status} to nearly every call: {to_check}"
