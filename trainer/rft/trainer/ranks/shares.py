"""Which rank computes which rows of a step: equal work by tokens. Pure."""

from collections.abc import Sequence


def shares(tokens: Sequence[int], ranks: int) -> list[list[int]]:
    """The rows of each rank, by index and in order; every row is in one share. `tokens`: of each row, all of them.

    The longest rows are dealt first, each to the rank with the fewest tokens so far: no share has more tokens than the
    smallest one and one row together. Rank 0 has a row wherever there is one.
    """
    dealt: list[list[int]] = [[] for _ in range(ranks)]
    loads = [0] * ranks
    for index in sorted(range(len(tokens)), key=lambda index: (-tokens[index], index)):
        rank = loads.index(min(loads))
        dealt[rank].append(index)
        loads[rank] += tokens[index]
    return [sorted(indices) for indices in dealt]
