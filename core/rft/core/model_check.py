"""What is found out about a base model before a job starts from it."""

from rft.core.base import Record


class ModelCheck(Record):
    """What a model's chat can do, or why it cannot be used."""

    problem: str | None = None
    """Why it cannot be trained to use tools, and what to do; None when it can."""
    chat_format: str | None = None
    """Its name; None where there is a problem."""
    template_fingerprint: str | None = None
    """Sixteen hexadecimal digits of the chat template in use."""
    is_template_shipped: bool = False
    """The template is ours, since the model's own has no place for tools."""
    takes_parallel_calls: bool = False
    """Its template writes several calls into one turn."""
    lists_tools: bool = False
    """Its template tells the model of its tools."""
    thinking_switch: str | None = None
    """The variable of its template that says how much it thinks; None where it has none."""
    stop_tokens: tuple[str, ...] = ()
    """What ends a turn."""
    engine_problem: str | None = None
    """Why the engine `transformers` cannot sample from it; None where it can, or where nobody looked at its layers."""


def cannot_sample(problem: str) -> str:
    """Words for whoever is to sample from such a model with the engine `transformers`."""
    return f"the engine `transformers` cannot sample from it: {problem}. The engine `vllm` can (RFT_ENGINE=vllm)"
