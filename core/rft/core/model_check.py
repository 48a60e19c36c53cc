"""What is found out about a base model before a job starts from it."""

from rft.core.base import Record
from rft.core.spec import Engine

_SINGLE_BYTES = 4
_ADAPTER_BYTES = 4 * _SINGLE_BYTES
"""Of each weight of an adapter: itself, its gradient, and two moments of the optimizer."""
_HEAD_BYTES = 192 * 2**20
"""Logits of a few tokens, and what is made of them."""


class CacheFigures(Record):
    """Keys and values of the conversations that the engine `transformers` runs at once."""

    bytes_per_token: int
    """Of one conversation."""
    tokens: int
    """Of all conversations together at most."""
    conversations: int
    """At once."""

    @property
    def max_bytes(self) -> int:
        """Where every place is taken; memory is touched only as conversations grow, or at once where it is in pages."""
        return self.bytes_per_token * self.tokens


class ModelFigures(Record):
    """What a base model takes of a machine that computes in single precision; found without loading it."""

    max_context_tokens: int
    """Prompt and completion at most."""
    parameters: int
    adapter_rank: int
    adapter_layers: tuple[str, ...]
    """Layers that get an adapter where the order names none, by the last part of their name."""
    adapter_parameters: int
    """Of an adapter of that rank on those layers."""
    adapted_parameters: int
    """Of the layers that an adapter changes: the engine keeps them as they were, too."""
    activation_bytes_per_token: int | None
    """What an update keeps for its way back; None where that is not known."""
    micro_batch_tokens: int | None
    """What an update would compute at once within this machine's free memory; longer rollouts with checkpointing."""
    cache: CacheFigures | None
    """Of the engine `transformers`; None where it cannot hold the model."""
    has_gpu: bool
    """Whether the machine has one."""

    @property
    def weights_bytes(self) -> int:
        """The base model, once."""
        return _SINGLE_BYTES * self.parameters

    @property
    def adapter_bytes(self) -> int:
        """The adapter with gradient and optimizer."""
        return _ADAPTER_BYTES * self.adapter_parameters

    @property
    def activation_bytes(self) -> int | None:
        """Of the micro-batch that the free memory allows."""
        if self.activation_bytes_per_token is None or self.micro_batch_tokens is None:
            return None
        return self.activation_bytes_per_token * self.micro_batch_tokens

    @property
    def training_bytes(self) -> int | None:
        """An update at its peak."""
        activations = self.activation_bytes
        return None if activations is None else self.weights_bytes + self.adapter_bytes + activations + _HEAD_BYTES

    @property
    def sampling_bytes(self) -> int | None:
        """The engine `transformers` once its cache is full."""
        cache = self.cache
        return None if cache is None else self.weights_bytes + _SINGLE_BYTES * self.adapted_parameters + cache.max_bytes


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
    has_thoughts: bool = False
    """Its chat format marks thoughts, so that they can be told apart and be limited."""
    stop_tokens: tuple[str, ...] = ()
    """What ends a turn."""
    engine_problem: str | None = None
    """Why the engine `transformers` cannot sample from it; None where it can, or where nobody looked at its layers."""
    figures: ModelFigures | None = None
    """None where nobody looked at its layers."""

    @property
    def auto_engine(self) -> str | None:
        """The engine that suits model and machine; None where nobody looked at its layers."""
        if self.figures is None:
            return None
        return Engine.VLLM if self.engine_problem is not None or self.figures.has_gpu else Engine.TRANSFORMERS


def cannot_sample(problem: str) -> str:
    """Words for whoever is to sample from such a model with the engine `transformers`."""
    return f"the engine `transformers` cannot sample from it: {problem}. The engine `vllm` can (RFT_ENGINE=vllm)"
