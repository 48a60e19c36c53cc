"""What finishes in a step outlives the process: the step that is done again only does what is missing.

A rollout is written to its round's journal as it ends, before the event log tells of it, and the journals of a step go
once its checkpoint is complete. The next process keeps the graded ones where they would come out the same: sampled with
the same adapter, and worth the same under the run's specification.
"""

import hashlib
import re
import shutil
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock

from rft.core.events import RolloutsVoided
from rft.core.failure import Failure
from rft.core.grade import Grade
from rft.core.rollout import Rollout, RolloutKey, Split
from rft.rollouts.kept_rollouts import EndedRollout, KeptRollout, KeptRollouts, kept_by_place
from rft.rollouts.stats import to_rollout_done
from rft.run_directory import layout
from rft.trainer.events import EventWriter, told_rollouts
from rft.trainer.finished_journal import Journal, JournalLine, read_journal, rewrite_journal

_NAME = re.compile(r"step-(\d+)-(train|valid|test)\.jsonl")
_Round = tuple[int, Split]
_SEPARATOR = "+"


class AdapterDigests:
    """What adapters consist of, by policy version: an update that is done again need not come out the same."""

    def __init__(self, path_of: Callable[[int], Path]) -> None:
        """`path_of`: the directory of a step's checkpoint."""
        self._path_of = path_of
        self._known: dict[int, str] = {}

    def of(self, version: int) -> str | None:
        """SHA-256 of its weights, in hexadecimal; None where they are gone."""
        if version not in self._known:
            files = sorted(self._path_of(version).glob("adapter_model*"))
            if not files:
                return None
            whole = hashlib.sha256()
            for path in files:
                with path.open("rb") as file:
                    whole.update(hashlib.file_digest(file, "sha256").digest())
            self._known[version] = whole.hexdigest()
        return self._known[version]


class FinishedRollouts:
    """The journals of a run directory, by round."""

    def __init__(
        self, run_dir: Path, events: EventWriter, adapters: AdapterDigests, *, terms: str, resumed: int | None
    ) -> None:
        """Take over what processes before this one left. `resumed`: the step that the run goes on from."""
        self._run_dir, self._events, self._adapters, self._terms = run_dir, events, adapters, terms
        self._resumed = resumed
        self._left: dict[_Round, dict[RolloutKey, KeptRollout]] = {}
        self._sampled_with: dict[str, str] = {}
        """Digest of the adapter by id, of what was left."""
        self._under_way: dict[_Round, KeptRollouts] = {}
        self._journals: dict[_Round, Journal] = {}
        self._writing, self._keeps_nothing = Lock(), False
        for path in sorted((run_dir / layout.FINISHED).glob("*")):
            name = _NAME.fullmatch(path.name)
            of_round = None if name is None else (int(name[1]), Split(name[2]))
            if of_round is None or _is_over(of_round, resumed):
                path.unlink()
            else:
                self._take_over(path, of_round)

    @property
    def kept(self) -> tuple[str, ...]:
        """Ids of what was left."""
        return tuple(self._sampled_with)

    @property
    def outcomes(self) -> Mapping[str, Grade | Failure]:
        """What became of them."""
        ended = (one.rollout for kept in self._all_left() for one in kept.ended)
        return {rollout.trace_id: rollout.outcome for rollout in ended}

    def tell_untold(self) -> None:
        """What its process could write here, and no longer to the event log. To be called before any round."""
        told = told_rollouts(self._run_dir / layout.EVENTS, self._sampled_with)
        for kept in self._all_left():
            if kept.rollout.trace_id not in told:
                for ended in kept.ended:
                    self._events.append(to_rollout_done(ended.rollout))

    @contextmanager
    def round(self, step: int, split: Split, version: int, *, oldest: int | None = None) -> Generator[KeptRollouts]:
        """What is kept of a round that this policy version samples. What found no place when it ends well is void.

        `oldest`: the oldest version that may have sampled what is used, where it need not be the same.
        """
        self._adapters.of(version)  # Its files may be gone when the last of its rollouts ends.
        left, versions = self._left.pop((step, split), {}), range(version if oldest is None else oldest, version + 1)
        kept = {place: one for place, one in left.items() if self._is_by(one.rollout, versions)}
        self._void(step, split, [name for place, one in left.items() if place not in kept for name in one.trace_ids])
        # What a group refuses is void before it begins anew: the next process would meet two verdicts in its places.
        under_way = KeptRollouts(kept, on_refused=partial(self._void, step, split))
        self._under_way[step, split] = under_way
        yield under_way
        self._void(step, split, under_way.unclaimed)

    def add(self, rollout: Rollout, *, is_replaced: bool) -> None:
        """One more has ended, and is not told of yet. Raises OSError."""
        adapters = [self._adapters.of(version) for version in _versions(rollout)]
        known, of_round = [one for one in adapters if one is not None], (rollout.key.step, rollout.key.split)
        with self._writing:
            if len(known) < len(adapters) or self._keeps_nothing:
                return
            journal = self._journals.get(of_round)
            if journal is None:
                journal = self._journals[of_round] = Journal(self._path(of_round), self._terms)
            journal.append(JournalLine(_SEPARATOR.join(known), is_replaced, rollout))

    def keep_nothing(self) -> None:
        """Of all steps under way, and of what still ends in them: the next process samples all of it again."""
        with self._writing:
            self._keeps_nothing = True
            for under_way in self._under_way.values():
                under_way.forget()
            self.close()
            forget_finished(self._run_dir)

    def forget(self, step: int, *splits: Split) -> None:
        """These rounds of the step, or all, are complete or void."""
        for split in splits or Split:
            if (under_way := self._under_way.pop((step, split), None)) is not None:
                under_way.forget()
            self._shut((step, split))
            self._path((step, split)).unlink(missing_ok=True)

    def close(self) -> None:
        """Nothing ends any more; what is here stays for the next process. Idempotent."""
        for of_round in list(self._journals):
            self._shut(of_round)

    def _take_over(self, path: Path, of_round: _Round) -> None:
        read = read_journal(path, self._terms)
        left = kept_by_place(EndedRollout(line.rollout, line.is_replaced) for line in read.lines)
        ids = {trace_id for kept in left.values() for trace_id in kept.trace_ids}
        lines = [line for line in read.lines if line.rollout.trace_id in ids]
        if not read.is_clean or len(lines) < len(read.lines):
            # What is not kept is done again, in the same places: its lines must not be met there later.
            rewrite_journal(path, self._terms, lines)
        if left:
            self._left[of_round] = left
            self._sampled_with |= {line.rollout.trace_id: line.adapter for line in lines}

    def _all_left(self) -> list[KeptRollout]:
        return [kept for by_place in self._left.values() for kept in by_place.values()]

    def _is_by(self, rollout: Rollout, versions: range) -> bool:
        """Whether these versions, and no others, sampled it, and are still what they were."""
        used, were = _versions(rollout), self._sampled_with[rollout.trace_id].split(_SEPARATOR)
        return len(used) == len(were) and all(
            version in versions and self._is_still(version, was) for version, was in zip(used, were, strict=True)
        )

    def _is_still(self, version: int, was: str) -> bool:
        adapter = self._adapters.of(version)
        if adapter is None:  # Pruned: only what comes after the checkpoint that the run goes on from is made again.
            return self._resumed is not None and version <= self._resumed
        return was == adapter

    def _void(self, step: int, split: Split, trace_ids: Collection[str]) -> None:
        """First here, then in the log: a process that dies in between keeps none of them."""
        if not trace_ids:
            return
        void, path = set(trace_ids), self._path((step, split))
        self._shut((step, split))
        lines = read_journal(path, self._terms).lines
        rewrite_journal(path, self._terms, (line for line in lines if line.rollout.trace_id not in void))
        self._events.append(RolloutsVoided(step=step, trace_ids=tuple(trace_ids)))

    def _shut(self, of_round: _Round) -> None:
        if (journal := self._journals.pop(of_round, None)) is not None:
            journal.close()

    def _path(self, of_round: _Round) -> Path:
        return self._run_dir / layout.finished_journal(*of_round)


def _versions(rollout: Rollout) -> list[int]:
    """Those that it was sampled with, the oldest first."""
    return sorted({rollout.policy_version, *rollout.turn_versions})


def forget_finished(run_dir: Path) -> None:
    """The run is over."""
    shutil.rmtree(run_dir / layout.FINISHED, ignore_errors=True)


def _is_over(of_round: _Round, resumed: int | None) -> bool:
    """Whether the step is complete; the best policy is measured after its step, at the end of the run."""
    step, split = of_round
    return resumed is not None and step <= resumed and not (split is Split.TEST and step > 0)
