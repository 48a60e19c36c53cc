"""How much likelier the trainer found the sampled tokens of each row than the sampler did."""

from collections.abc import Sequence

from torch import Tensor

from rft.core.token_record import pack_float16
from rft.trainer.samples import RowRatios, TrainingRow


def row_ratios(rows: Sequence[TrainingRow], logprobs_B_T: Tensor) -> list[RowRatios]:
    """`logprobs_B_T`: the trainer's, of everything after a row's first token, padding and tool outputs included; of a
    micro-batch without rows, those of a blank one."""
    return [_of_row(row, logprobs_T) for row, logprobs_T in zip(rows, logprobs_B_T.float().cpu(), strict=False)]


def _of_row(row: TrainingRow, logprobs_T: Tensor) -> RowRatios:
    trainer = logprobs_T[len(row.prompt_ids) - 1 : row.tokens - 1].tolist()
    both = zip(trainer, row.logprobs_T, row.mask_T, strict=True)
    log_ratios = pack_float16(own - sampler for own, sampler, is_sampled in both if is_sampled)
    return RowRatios(row.trace_id, row.advantage, log_ratios)
