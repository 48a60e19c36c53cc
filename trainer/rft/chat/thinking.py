"""Thoughts between `<think>` and `</think>`, the marks that most families share."""

THINK_OPEN, THINK_CLOSE = "<think>", "</think>"


def split_thinking(text: str, *, call_open: str | None = None) -> tuple[str, str]:
    """Thoughts without their marks, and what follows them.

    The prompt may have opened the thought; one that never closes leaves nothing. A closing mark behind `call_open` is
    part of a call.
    """
    if text.lstrip().startswith(THINK_OPEN):
        thought, _, rest = text.partition(THINK_CLOSE)
        return thought.lstrip().removeprefix(THINK_OPEN).strip(), rest
    thought, closed, rest = text.partition(THINK_CLOSE)
    if closed and (call_open is None or call_open not in thought):
        return thought.strip(), rest
    return "", text
