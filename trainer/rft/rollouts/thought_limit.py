"""A turn whose thought may only be so long: it is sampled in one piece, or in two."""

from collections.abc import Sequence
from typing import Protocol

from rft.chat.chat_format import ChatFormat
from rft.rollouts.sampler import FinishReason, Sample


class TurnInPieces(Protocol):
    """A turn on its way, whose pieces follow one another."""

    async def sample_piece(self, *part: str, at_most: int | None = None) -> Sample:
        """All that is left of the turn, or so many tokens of it, taken over. `part` names a second piece."""
        ...

    def has_room_behind(self, token_ids: Sequence[int]) -> bool:
        """Whether a token can still be sampled behind these."""
        ...

    def take_unsampled(self, token_ids: Sequence[int]) -> None:
        """Tokens that the policy is to go on behind."""
        ...


async def sample_within_thought_limit(
    turn: TurnInPieces, chat_format: ChatFormat, context_ids: Sequence[int], max_reasoning_tokens: int | None
) -> Sample:
    """The last piece of the turn behind `context_ids`: a thought that is too long is closed by tokens nobody sampled.

    `max_reasoning_tokens`: None for no limit.
    """
    limit = None if max_reasoning_tokens is None else chat_format.thought_limit(context_ids, max_reasoning_tokens)
    sample = await turn.sample_piece(at_most=limit)
    if limit is None or sample.finish_reason is FinishReason.STOP or len(sample.token_ids) < limit:
        return sample
    closing = chat_format.thought_closing(context_ids, sample.token_ids)
    if not turn.has_room_behind(closing):
        return sample
    if closing:
        turn.take_unsampled(closing)
    return await turn.sample_piece("answer")
