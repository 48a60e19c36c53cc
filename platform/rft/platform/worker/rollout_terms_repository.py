"""The words of rollouts that are stored together, so that they can be found by their text."""

from dataclasses import dataclass, field
from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.platform.store.said import LONGEST_WORD, place_of, terms_of
from rft.platform.worker.log_line import LoggedRollout

_CHARS_BETWEEN_LOOKS = 200_000
_MAX_BYTES = 500_000
"""Of one row's terms: Postgres holds a megabyte of them, with eight bytes beside each."""


@dataclass(slots=True)
class _Terms:
    """One row of `rollout_terms`."""

    split: str
    step: int
    rows: set[int] = field(default_factory=set[int])
    terms: set[str] = field(default_factory=set[str])
    unweighed_chars: int = 0
    """Of what was read since the words were last weighed."""

    def is_full(self) -> bool:
        """Whether no more words should come to it; a text too many does no harm."""
        if self.unweighed_chars < _CHARS_BETWEEN_LOOKS:
            return False
        self.unweighed_chars = 0
        return sum(len(word.encode()) + 8 for word in self.terms) > _MAX_BYTES


class RolloutTerms:
    """Collects what is stored of a job at once."""

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id
        self._open: dict[tuple[str, int], _Terms] = {}
        self._full: list[_Terms] = []

    def add(self, rollout: LoggedRollout) -> None:
        """One more rollout's prompt and answer."""
        key = rollout.split, rollout.step
        said = self._open.get(key)
        if said is None:
            said = self._open[key] = _Terms(*key)
        text = f"{rollout.prompt or ''} {rollout.answer or ''}"
        said.rows.add(rollout.row_index)
        said.terms.update(terms_of(text))
        said.unweighed_chars += len(text)
        if said.is_full():
            self._full.append(self._open.pop(key))

    async def store(self, connection: AsyncConnection[TupleRow]) -> None:
        """All that was collected."""
        async with connection.cursor() as cursor:
            for said in [*self._full, *self._open.values()]:
                short = (term for term in said.terms if len(term) <= LONGEST_WORD)
                terms = " ".join((*short, place_of(self._job_id, said.step)))
                values = (self._job_id, said.split, said.step, [*said.rows], terms)
                await cursor.execute(_STORE, values)


_STORE: LiteralString = (
    "insert into rollout_terms (job_id, split, step, rows, terms)"
    " values (%s, %s, %s, %s::int4[], array_to_tsvector(string_to_array(%s, ' ')))"
)
