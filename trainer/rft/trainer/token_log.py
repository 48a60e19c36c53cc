"""Tells of tokens in the event log, for readers: nothing is trained on what is told here."""

from collections.abc import Callable, Iterable

from rft.core.events import RatiosMeasured, TokensSampled, TrainEvent
from rft.core.rollout import Rollout
from rft.core.token_record import pack_tokens, prompt_name
from rft.core.turns import TokenSpan, Trace
from rft.trainer.samples import RowRatios


class TokenLog:
    """Remembers which prompts and tokens it told of; those of a rollout are told from one thread."""

    def __init__(self, append: Callable[[TrainEvent], None], bytes_of: Callable[[int], bytes]) -> None:
        """`bytes_of`: what a token stands for, by its id."""
        self._append, self._bytes_of = append, bytes_of
        self._prompts: set[str] = set()
        self._ids: set[int] = set()

    def sampled(self, rollout: Rollout) -> None:
        """One rollout's tokens; nothing where it has none."""
        trace = rollout.trace
        if not trace.prompt_ids and not trace.spans:
            return
        packed_prompt = pack_tokens(TokenSpan.context(trace.prompt_ids))
        name = prompt_name(packed_prompt)
        is_new = name not in self._prompts
        self._prompts.add(name)
        self._append(
            TokensSampled(
                trace_id=rollout.trace_id,
                prompt=name,
                completion=pack_tokens(_completion(trace)),
                new_prompt=packed_prompt if is_new else None,
                new_pieces=self._new_pieces(trace.token_ids if is_new else trace.completion_ids_T),
            )
        )

    def measured(self, rows: Iterable[RowRatios]) -> None:
        """How the trainer saw the rollouts that a step trains on."""
        for row in rows:
            self._append(RatiosMeasured(trace_id=row.trace_id, advantage=row.advantage, log_ratios=row.log_ratios))

    def _new_pieces(self, token_ids: Iterable[int]) -> dict[int, bytes]:
        new = set(token_ids) - self._ids
        self._ids |= new
        return {token_id: self._bytes_of(token_id) for token_id in sorted(new)}


def _completion(trace: Trace) -> TokenSpan:
    return TokenSpan(tuple(trace.completion_ids_T), tuple(trace.mask_T), tuple(trace.logprobs_T))
