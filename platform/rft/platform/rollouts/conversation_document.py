"""A rollout with its conversation on the wire. Messages go out as they were stored: there may be ten thousand of them,
and to read each only to write it again takes most of the time of such a reply (`make bench-web`)."""

from pydantic import TypeAdapter

from rft.core.messages import Message
from rft.platform.rollouts.objects import RolloutSummary
from rft.platform.rollouts.repository import ConversationRow

_MESSAGES = TypeAdapter(tuple[Message, ...])
_AS_THEY_ARE = RolloutSummary.model_fields.keys() & ConversationRow.model_fields.keys() - {"created_at"}


def conversation_document(row: ConversationRow) -> str:
    """A `RolloutDetail` as JSON."""
    fields = row.model_dump(include=_AS_THEY_ARE)
    summary = RolloutSummary(id=row.trace_id, created_at=int(row.created_at.timestamp()), **fields).model_dump_json()
    record = f'{{"messages":{_messages(row)},{row.rest.model_dump_json(exclude={"messages"})[1:]}'
    return f'{summary[:-1]},"status":"ended","superseded_by":null,"record":{record}}}'


def _messages(row: ConversationRow) -> str:
    if not row.is_older:
        return row.messages
    return _MESSAGES.dump_json(_MESSAGES.validate_json(row.messages)).decode()
