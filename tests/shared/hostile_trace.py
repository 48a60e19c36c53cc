"""A rollout whose text tries everything against the page that shows it, and of which there is more than fits."""

import json

from rft.core.events import RolloutDone
from rft.core.grade import Grade
from rft.core.messages import Message, Role, ToolCall

SCRIPT = "<img src=x onerror='window.hacked=true'><script>window.hacked=true</script>"
LINE = "x" * 1_000_000


def hostile(plain: RolloutDone, *, calls: int) -> RolloutDone:
    """The rollout with so many calls of `search`, each with an answer, and a final line of a megabyte."""
    made = [
        ToolCall(call_id=f"call_{n}", name="search", arguments=json.dumps({"query": f"call {n} {SCRIPT}"}))
        for n in range(calls)
    ]
    said = [
        message
        for call in made
        for message in (
            Message(role=Role.ASSISTANT, content="", tool_calls=(call,)),
            Message(role=Role.TOOL, content=f"reply to {call.call_id}", tool_call_id=call.call_id, name="search"),
        )
    ]
    answer = f"\x1b[31mred\x1b[0m \u202egnp.exe\u202c {SCRIPT} {LINE}"
    messages = (Message(role=Role.USER, content=SCRIPT), *said, Message(role=Role.ASSISTANT, content=answer))
    done = {"messages": messages, "tool_calls": {"search": calls}, "turns": calls + 1}
    return plain.model_copy(update={**done, "outcome": Grade(reward=1.0, grader="answer_credit")})
