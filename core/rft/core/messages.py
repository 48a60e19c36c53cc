"""Chat messages, tool calls and tool descriptions, in the shape the chat templates of open models read."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import takewhile

from rft.core.base import JsonObject, Record
from rft.core.failure import Failure

NAMED_JSON_CALL = "a JSON object with a string `name` and an object `arguments`"
"""How most models write calls."""


def unreadable_call_output(call_shape: str) -> str:
    """What the model reads of a call that cannot be read; `call_shape` says how its calls are written."""
    return f"Error: this tool call could not be read. Write {call_shape}."


UNREADABLE_CALL_OUTPUT = unreadable_call_output(NAMED_JSON_CALL)
"""The same where nobody knows how the model writes calls."""


class CallMistake(StrEnum):
    """What was wrong with a tool call that is the model's mistake: it is told so, goes on and is graded.

    A 4xx that the model reads is `http_<status>` (`http_mistake`); `docs/blame.md` has all of them.
    """

    UNREADABLE_CALL = "unreadable_call"
    """It cannot be read as a call."""
    UNKNOWN_TOOL = "unknown_tool"
    """The row describes no such tool."""
    INVALID_ARGUMENTS = "invalid_arguments"
    """No JSON, or not by the tool's schema."""
    OVERSIZE_ARGUMENTS = "oversize_arguments"
    OVERSIZE_REPLY = "oversize_reply"
    """The tool's reply is beyond the size cap."""
    BUDGET_USED_UP = "tool_budget_used_up"
    """Beyond the rollout's calls; never made."""


def http_mistake(status: int) -> str:
    """The code of a call that a tool answered with this status, where the model reads the answer."""
    return f"http_{status}"


class Role(StrEnum):
    """Who speaks. `developer` is the contract's word for what templates call `system`."""

    DEVELOPER = "developer"
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ToolCall(Record):
    """One call as the model wrote it."""

    call_id: str
    name: str
    arguments: str
    """The raw JSON text the model emitted: never parsed and written again."""


class Message(Record):
    """One message of a conversation."""

    role: Role
    content: str
    reasoning_content: str = ""
    """Only on assistant messages: what was thought before this was said, without the marks around it."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Only on assistant messages."""
    tool_call_id: str | None = None
    """Only on tool messages: the call this answers."""
    name: str | None = None


def in_order_of_calls(messages: Sequence[Message]) -> Iterator[Message]:
    """The messages, answers in the order of the calls before them: most templates show no ids, and clients answer as
    tools end. Left as they are where ids do not tell which call each answers."""
    place = 0
    while place < len(messages):
        message = messages[place]
        behind = [*takewhile(lambda one: one.role is Role.TOOL, messages[place + 1 :])]
        places = {call.call_id: number for number, call in enumerate(message.tool_calls)}
        answered = {answer.tool_call_id or "" for answer in behind}
        if len(places) == len(message.tool_calls) and places.keys() >= answered:
            behind.sort(key=lambda answer: places[answer.tool_call_id or ""])
        yield message
        yield from behind
        place += 1 + len(behind)


class ToolSchema(Record):
    """One tool as a dataset row describes it (chat-completions function shape)."""

    name: str
    description: str = ""
    parameters: JsonObject
    """JSON Schema of the arguments."""


class ToolResult(Record):
    """What came of one tool call: an output the model reads, or a failure that ends the rollout."""

    call_id: str
    name: str
    output: str | None
    """What the model reads, error messages included; None exactly when `failure` is set."""
    failure: Failure | None = None
    """An endpoint or platform failure after all retries; the rollout ends here."""
    is_model_error: bool = False
    """The call was the model's mistake (bad arguments, unknown tool, 4xx, oversize reply, budget used up)."""
    error_code: str | None = None
    """A `CallMistake` or an `http_mistake`; None when the call went well."""
    status: int | None = None
    """HTTP status of the reply whose text the model reads; None when none came."""
    suspected_failure: Failure | None = None
    """Set for 404, 405 and 410 without an `output`: the endpoint's failure if nearly every call of a step is answered
    so. One such answer alone is the model's mistake, and `output` is set, too."""
    latency_s: float = 0.0
    attempts: int = 0
    """HTTP attempts made; 0 when the call was never sent."""
    output_tokens: int = 0
    """Length of `output` in policy tokens, filled by the rollout loop."""


def unknown_tool_output(name: str, tools: Sequence[ToolSchema]) -> str:
    """What the model reads of a call of a tool that it was not told of."""
    known = ", ".join(tool.name for tool in tools) or "none"
    return f"Error: There is no tool named {name[:100]!r}. Tools: {known}."
