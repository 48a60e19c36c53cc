"""The file of what ended in one round of a step: exact records of rollouts, a line each, appended as they end.

It outlives the process, not the machine: what a power cut takes from it is rolled out again.
"""

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from rft.core.base import Record
from rft.core.rollout import Rollout
from rft.trainer.events import append_whole

_LOG = logging.getLogger(__name__)


class JournalHead(Record):
    """The first line."""

    version: Literal[1] = 1
    terms: str
    """`reward_terms` of the specification that the rollouts were finished under."""


@dataclass(frozen=True, slots=True)
class JournalLine:
    """One rollout that ended."""

    adapter: str
    """Digests of the adapters that it was sampled with, the oldest version's first."""
    is_replaced: bool
    """As in `EndedRollout`."""
    rollout: Rollout


@dataclass(frozen=True, slots=True)
class ReadJournal:
    """A journal as a process before this one left it."""

    lines: list[JournalLine]
    is_clean: bool
    """Whether it holds nothing else."""


_LINE = TypeAdapter(JournalLine)


def read_journal(path: Path, terms: str) -> ReadJournal:
    """What was finished under the same terms; a line that is torn or cannot be read is passed over. Raises OSError."""
    lines: list[JournalLine] = []
    is_clean = True
    with path.open("rb") as file:
        if file.readline() != _head(terms):
            return ReadJournal([], is_clean=False)
        for raw in file:
            try:
                lines.append(_LINE.validate_json(raw))
                is_clean = is_clean and raw.endswith(b"\n")
            except ValidationError as error:
                _LOG.warning("a line of %s is passed over: %s", path.name, error.errors()[0]["msg"])
                is_clean = False
    return ReadJournal(lines, is_clean)


class Journal:
    """The journal of a round under way."""

    def __init__(self, path: Path, terms: str) -> None:
        """Appends to what is there, which is clean."""
        path.parent.mkdir(exist_ok=True)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        if os.fstat(self._descriptor).st_size == 0:
            append_whole(self._descriptor, _head(terms))

    def append(self, line: JournalLine) -> None:
        """One more. Raises OSError, and then nothing of it is there."""
        append_whole(self._descriptor, _LINE.dump_json(line) + b"\n")

    def close(self) -> None:
        """Nothing is appended any more."""
        os.close(self._descriptor)


def rewrite_journal(path: Path, terms: str, lines: Iterable[JournalLine]) -> None:
    """In the place of what is there, whole or not at all; no file where nothing is left. Raises OSError."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    is_empty = True
    journal = Journal(unfinished, terms)
    try:
        for line in lines:
            journal.append(line)
            is_empty = False
    finally:
        journal.close()
    if is_empty:
        path.unlink(missing_ok=True)
        unfinished.unlink()
    else:
        unfinished.replace(path)


def _head(terms: str) -> bytes:
    return JournalHead(terms=terms).model_dump_json().encode() + b"\n"
