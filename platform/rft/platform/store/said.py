"""What a list shows of a conversation, and what is searched: the row's last question, and how the policy ended.

The functions `rollout_prompt` and `rollout_answer` of the database read the same of a stored record.
"""

import re
from collections.abc import Sequence

from rft.core.messages import Message, Role

_PROMPT_CHARS = 2000
_ANSWER_CHARS = 4000
PREVIEW_CHARS = 300
"""What a list shows of either."""
LONGEST_WORD = 64
"""Longer runs of letters and digits are no words: they are in no index."""
STEPS_TOGETHER = 32
"""Steps whose words are looked through at once."""
_WORD = re.compile(r"[^\W_]+")
_ASCII_GAPS = str.maketrans({char: " " for char in map(chr, range(128)) if not char.isalnum()})


def prompt_of(messages: Sequence[Message]) -> str | None:
    """What the row asked last."""
    return next((m.content[:_PROMPT_CHARS] for m in reversed(messages) if m.role is Role.USER), None)


def answer_of(messages: Sequence[Message]) -> str | None:
    """What the policy said last; None where it was cut off before it said anything."""
    if not messages or messages[-1].role is not Role.ASSISTANT:
        return None
    return messages[-1].content[:_ANSWER_CHARS]


def terms_of(text: str) -> list[str]:
    """Runs of letters and digits, in lower case, also those beyond `LONGEST_WORD`."""
    # The same, but most text is plain and there are thousands a second.
    return text.lower().translate(_ASCII_GAPS).split() if text.isascii() else _WORD.findall(text.lower())


def place_of(job_id: str, step: int) -> str:
    """The word by which a job's steps are told apart from other jobs' and from its others."""
    return f"{job_id}/{step // STEPS_TOGETHER}"
