"""Into which micro-batches the rows of a step are cut: with little padding, and not too many of them. Pure."""

from collections.abc import Sequence

from rft.trainer.samples import TrainingRow

PASS_TOKENS = 256
"""What one pass costs beside its tokens, in tokens: on a CPU the optimum is flat, from 64 to 512 cost the same."""
PASS_TOKENS_CUDA = 2048
"""An estimate: launching the kernels of a pass takes a GPU as long as so many tokens of a small model."""


def micro_batches(rows: Sequence[TrainingRow], tokens: int, *, pass_tokens: int) -> list[list[TrainingRow]]:
    """The cheapest batches of rows in the order of their lengths, longest first, each of at most so many tokens.

    A batch counts as its number of rows times its longest row, and costs `pass_tokens` beside; a row that is longer
    than `tokens` stands alone. Filling each batch up to `tokens` would pad many short rows to the length of a long one.
    """
    by_length = sorted(rows, key=lambda row: row.tokens, reverse=True)
    ends = _cheapest_ends([row.tokens for row in by_length], tokens, pass_tokens)
    batches: list[list[TrainingRow]] = []
    start = 0
    while start < len(by_length):
        batches.append(by_length[start : ends[start]])
        start = ends[start]
    return batches


def _cheapest_ends(lengths: Sequence[int], tokens: int, pass_tokens: int) -> list[int]:
    """Where the batch that begins with a row ends if it and all that follow are to cost least; lengths descend."""
    costs = [0] * (len(lengths) + 1)
    ends = [0] * len(lengths)
    for start in reversed(range(len(lengths))):
        last = max(start + 1, min(len(lengths), start + tokens // lengths[start]))
        costs[start], ends[start] = min(
            ((end - start) * lengths[start] + pass_tokens + costs[end], end) for end in range(start + 1, last + 1)
        )
    return ends
