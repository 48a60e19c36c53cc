"""The last calls of each endpoint that went wrong, with request and reply: a few, however many go wrong. No clock."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from rft.core.attempt import Attempt
from rft.core.failed_call import SHOWN_CHARS, FailedCall
from rft.core.failure import FailureCode, Stage
from rft.egress.redaction import redact
from rft.egress.reply import AttemptFailure, Reply

AT_ONCE = 4
"""Calls of one endpoint that are told at one time."""
EVERY_S = 30.0
"""Between two such times: a URL that answers 404 to thousands of calls costs no more than this."""
_READ_BYTES = 16 * SHOWN_CHARS
_Name = tuple[Stage, str]


@dataclass(frozen=True, slots=True)
class _Raw:
    """As it came: what is not told costs nothing more."""

    attempt: Attempt
    secrets: Sequence[str]
    message: str | None
    request: bytes
    reply: bytes | None

    def shown(self) -> FailedCall:
        made = self.attempt
        return FailedCall(
            at=made.at,
            trace_id=made.trace_id,
            stage=made.stage,
            endpoint=made.endpoint,
            call_id=made.call_id,
            attempt=made.attempt,
            code=made.code,
            status=made.status,
            message=None if self.message is None else shown_text(self.message.encode(), self.secrets),
            request=shown_text(self.request, self.secrets),
            reply=None if self.reply is None else shown_text(self.reply, self.secrets),
        )


@dataclass(slots=True)
class FailedCalls:
    """Collected as they end, told from time to time. Used from one event loop alone."""

    _waiting: dict[_Name, deque["_Raw | FailedCall"]] = field(
        default_factory=lambda: dict[_Name, deque["_Raw | FailedCall"]]()
    )
    _told_s: dict[_Name, float] = field(default_factory=dict[_Name, float])

    def note(
        self, attempt: Attempt, reply: Reply | AttemptFailure, failure: AttemptFailure | None, *,
        request: bytes, secrets: Sequence[str],
    ) -> None:  # fmt: skip
        """One attempt ended; kept where it went wrong and nobody gave it up."""
        is_wrong = failure is not None or (attempt.status or 0) >= 400
        if is_wrong and attempt.code is not FailureCode.CANCELLED:
            body = reply.body if isinstance(reply, Reply) else None
            self._add(attempt, _Raw(attempt, secrets, failure and failure.message, request, body))

    def add(self, call: FailedCall) -> None:
        """One that a gateway service tells of."""
        self._add(call, call)

    def take(self, now_s: float, *, is_last: bool = False) -> list[FailedCall]:
        """The newest ones of those endpoints that it is time for; of all of them where nothing follows."""
        due = [
            name for name in self._waiting if is_last or now_s - self._told_s.get(name, -EVERY_S) >= EVERY_S
        ]  # fmt: skip
        taken: list[FailedCall] = []
        for name in due:
            self._told_s[name] = now_s
            taken += [one if isinstance(one, FailedCall) else one.shown() for one in self._waiting.pop(name)]
        return taken

    def _add(self, of: Attempt | FailedCall, call: "_Raw | FailedCall") -> None:
        self._waiting.setdefault((of.stage, of.endpoint), deque(maxlen=AT_ONCE)).append(call)


def shown_text(body: bytes, secrets: Sequence[str]) -> str:
    """Its first characters, without these secrets, not even half of one at the end."""
    text = redact(body[:_READ_BYTES].decode(errors="replace"), secrets)
    if len(body) > _READ_BYTES:
        text = text[: max(0, len(text) - max(map(len, secrets), default=0))]
    return text[:SHOWN_CHARS]
