"""Messages, tools and results in the shape chat templates read."""

import json

from pydantic import JsonValue

from rft.chat.syntax import TurnSyntax
from rft.core.base import JsonObject
from rft.core.messages import Message, Role, ToolCall, ToolResult, ToolSchema


def template_message(message: Message, syntax: TurnSyntax) -> JsonObject:
    """`developer` becomes `system`; fields that a message does not have are left out."""
    role = Role.SYSTEM if message.role is Role.DEVELOPER else message.role
    rendered: JsonObject = {"role": role.value, "content": message.content}
    if message.reasoning_content:
        # Templates know it by one of these names, and print none where they have no place for it. gpt-oss takes its own
        # name only where nothing was said.
        names = ("reasoning_content", "reasoning", *(() if message.content else ("thinking",)))
        rendered |= dict.fromkeys(names, message.reasoning_content)
    if message.tool_calls:
        rendered["tool_calls"] = [_template_call(call, syntax) for call in message.tool_calls]
    if message.tool_call_id is not None:
        rendered["tool_call_id"] = syntax.shown_id(message.tool_call_id)
    if message.name is not None:
        rendered["name"] = message.name
    return rendered


def _template_call(call: ToolCall, syntax: TurnSyntax) -> JsonObject:
    """Templates dump arguments themselves, so an object goes in as one; text that is no object stays text."""
    try:
        parsed: JsonValue = json.loads(call.arguments)
    except (ValueError, RecursionError):
        parsed = None
    arguments = parsed if isinstance(parsed, dict) else call.arguments
    return template_call(syntax.shown_id(call.call_id), call.name, arguments)


def template_call(call_id: str, name: str, arguments: JsonValue) -> JsonObject:
    """One call of an assistant's message."""
    return {"type": "function", "id": call_id, "function": {"name": name, "arguments": arguments}}


def template_tool(tool: ToolSchema) -> JsonObject:
    """One tool as it is listed to the model."""
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    }


def result_message(result: ToolResult, syntax: TurnSyntax) -> JsonObject:
    """Raises ValueError for a call that failed: nothing is shown of it."""
    if result.output is None:
        raise ValueError("a failed tool call has no output to show")
    return {
        "role": "tool",
        "content": result.output,
        "tool_call_id": syntax.shown_id(result.call_id),
        "name": result.name,
    }
