"""Chat models that are scripts: rollouts of messages without a model and without HTTP."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from rft.core.failure import Failure
from rft.core.messages import Role, ToolCall
from rft.rollouts.chat_policy import ChatFinish, ChatRequest, ChatTurn, ChatUsage

Said = str | Sequence[ToolCall] | ChatTurn | Failure
"""An answer, calls of tools, a whole turn, or no turn at all."""


def chat_call(name: str, arguments: str = "{}", call_id: str = "") -> ToolCall:
    """A call as a chat model makes it; without an id it gets one of its turn and position."""
    return ToolCall(call_id=call_id, name=name, arguments=arguments)


@dataclass(slots=True)
class ScriptedChatPolicy:
    """Implements `ChatPolicy`: a function says each turn, or the texts, calls and turns of a list, by their number."""

    script: Sequence[Said] | Callable[[ChatRequest], Said]
    provider: str | None = None
    max_concurrency: int = 8
    tokens_per_turn: int = 10
    """What a turn costs that says nothing of it; the prompt ten times as much."""
    wait: Callable[[ChatRequest], Awaitable[None]] | None = None
    """Waited for before a turn is said."""
    requests: list[ChatRequest] = field(default_factory=list[ChatRequest])
    """All it was asked, in the order they came."""

    async def complete(self, request: ChatRequest) -> ChatTurn | Failure:
        """The script's next turn for this conversation."""
        self.requests.append(request)
        if self.wait is not None:
            await self.wait(request)
        turn = sum(message.role is Role.ASSISTANT for message in request.messages)
        said = self.script(request) if callable(self.script) else self.script[turn]
        if isinstance(said, ChatTurn | Failure):
            return said
        usage = ChatUsage(prompt_tokens=10 * self.tokens_per_turn, completion_tokens=self.tokens_per_turn)
        calls = () if isinstance(said, str) else tuple(_with_id(call, turn, n) for n, call in enumerate(said))
        content = said if isinstance(said, str) else ""
        return ChatTurn(content, ChatFinish.STOP, tool_calls=calls, usage=usage, model="scripted")


def _with_id(call: ToolCall, turn: int, position: int) -> ToolCall:
    return call if call.call_id else call.model_copy(update={"call_id": f"own_{turn}_{position}"})
