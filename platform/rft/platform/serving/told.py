"""What a serving process has told of a request so far."""

from dataclasses import dataclass, field

from rft.platform.serving.repository import ServedTokens
from rft.serving_wire.records import Choice, Done, Event, Prompt, Refused, Text


@dataclass(slots=True, kw_only=True)
class ToldSoFar:
    """Takes events in their order."""

    model: str
    """The public name that it was asked for by."""
    prompt: Prompt | None = None
    choices: list[Choice] = field(default_factory=list[Choice])
    _completion_tokens: dict[int, int] = field(default_factory=dict[int, int])
    """By the index of their choice, which need not be complete: clients hang up."""

    def take(self, event: Event) -> None:
        """Remember what is needed at the end."""
        match event:
            case Prompt():
                self.prompt = event
            case Text():
                self._completion_tokens[event.index] = event.completion_tokens
            case Choice():
                self.choices.append(event)
                self._completion_tokens[event.index] = event.completion_tokens
            case Done() | Refused():
                pass

    @property
    def tokens(self) -> ServedTokens:
        """As far as it came."""
        if self.prompt is None:
            return ServedTokens()
        return ServedTokens(
            prompt_tokens=self.prompt.prompt_tokens,
            remembered_tokens=self.prompt.remembered_tokens,
            completion_tokens=sum(self._completion_tokens.values()),
            rendered_again=int(self.prompt.is_rendered_again),
        )
