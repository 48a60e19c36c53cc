"""The rows of a run, and the order they are trained in: decided once, so that a resumed run goes on exactly."""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from rft.core.dataset import DatasetRow, RowProblem, parse_rows
from rft.core.errors import RftError
from rft.core.ids import seed_63


class BadDataset(RftError):
    """A line of a rows file is no row. `param` names the file as the customer does."""

    def __init__(self, message: str, param: str) -> None:
        super().__init__(message)
        self.param = param


@dataclass(frozen=True, slots=True)
class RowPlace:
    """A row's place in the run's order."""

    row_index: int
    epoch: int


def read_rows(path: Path, *, param: str = "training_file") -> list[DatasetRow]:
    """All rows of a file. Raises BadDataset with the line number and the reason."""
    rows: list[DatasetRow] = []
    with path.open("rb") as lines:
        for parsed in parse_rows(lines):
            if isinstance(parsed, RowProblem):
                raise BadDataset(f"{path.name}: {parsed}", param)
            rows.append(parsed)
    return rows


def row_order(
    *, rows: int, batch_size: int, steps: int, seed: int, left_out: Collection[int] = ()
) -> list[list[RowPlace]]:
    """One batch per step. Each epoch is a permutation of its own; the last batch wraps into one more epoch.

    A batch that reaches over the end of an epoch takes no row twice, as long as it has rows to choose from.
    `left_out`: of the file's `rows` those that cannot be answered, not all of them. The others keep their order: a
    model's context may be another one when the run is resumed.
    """
    order: list[RowPlace] = []
    epoch = 0
    while len(order) < steps * batch_size:
        room = -len(order) % batch_size
        taken = {place.row_index for place in order[len(order) - (len(order) % batch_size) :]}
        permutation = [index for index in _permutation(rows, seed, epoch) if index not in left_out]
        order.extend(RowPlace(index, epoch) for index in _without_repetition(permutation, taken, room))
        epoch += 1
    return [order[start : start + batch_size] for start in range(0, steps * batch_size, batch_size)]


def spare_rows(
    *, rows: int, batch: Sequence[RowPlace], step: int, seed: int, left_out: Collection[int] = ()
) -> list[RowPlace]:
    """The rows that a step's batch does not have, in the order that they take the places of groups without signal in.

    A function of seed, step and batch alone: whatever other steps took, and wherever the run was resumed.
    `left_out`: as in `row_order`; the others keep their order.
    """
    taken = {place.row_index for place in batch}
    permutation = [index for index in range(rows) if index not in taken]
    random.Random(seed_63("spare rows", seed, step)).shuffle(permutation)
    return [RowPlace(index, batch[0].epoch) for index in permutation if index not in left_out]


def _permutation(rows: int, seed: int, epoch: int) -> list[int]:
    permutation = list(range(rows))
    random.Random(seed_63("row order", seed, epoch)).shuffle(permutation)
    return permutation


def _without_repetition(permutation: Sequence[int], taken: set[int], room: int) -> Sequence[int]:
    """The epoch's rows; those that the unfinished batch holds already come after the places left in it."""
    fresh = [index for index in permutation if index not in taken][:room]
    chosen = set(fresh)
    return [*fresh, *(index for index in permutation if index not in chosen)]
