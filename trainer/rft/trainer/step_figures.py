"""What one optimizer step comes to, added up over its micro-batches."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rft.core.step_record import Optimization
from rft.trainer.samples import RowRatios, TrainingRow


@dataclass(slots=True)
class StepFigures:
    """Sums over the micro-batches so far."""

    rows: int = 0
    """Training rows of the whole step."""
    tokens: int = 0
    """Sampled tokens of the whole step."""
    staleness_sum: float = 0
    staleness_max: int = 0
    loss: float = 0.0
    entropy_sum: float = 0.0
    logprob_gap_sum: float = 0.0
    """Absolute differences to the sampler's log-probabilities."""
    truncated: int = 0
    """Sampled tokens whose importance weight would exceed the cap."""
    clipped: int = 0
    """Sampled tokens whose ratio is outside the clip range."""
    kl_sum: float = 0.0
    """Estimates of the KL divergence from the base model, where the loss has it, weighted as there."""
    grad_norm: float | None = None
    learning_rate: float | None = None
    ratios: list[RowRatios] = field(default_factory=list[RowRatios])
    """Of the rows so far."""

    @classmethod
    def before(cls, rows: Sequence[TrainingRow]) -> "StepFigures":
        """What is known of a step's rows before the first of them went through the model."""
        return cls(
            rows=len(rows),
            tokens=sum(row.sampled_tokens for row in rows),
            staleness_sum=sum(row.staleness for row in rows),
            staleness_max=max((row.oldest for row in rows), default=0),
        )

    def add(self, other: "StepFigures") -> None:
        """What another rank summed up over its rows of the same step."""
        self.loss += other.loss
        self.entropy_sum += other.entropy_sum
        self.logprob_gap_sum += other.logprob_gap_sum
        self.truncated += other.truncated
        self.clipped += other.clipped
        self.kl_sum += other.kl_sum
        self.ratios += other.ratios

    def optimization(self) -> Optimization:
        """As it is told; None where the step carried no signal."""
        has_signal = self.rows > 0
        return Optimization(
            loss=self.loss if has_signal else None,
            grad_norm=self.grad_norm if has_signal else None,
            entropy=self.entropy_sum / self.tokens if has_signal else None,
            learning_rate=self.learning_rate,
            trained_rollouts=self.rows,
            trained_tokens=self.tokens,
            sampling_logp_difference=self.logprob_gap_sum / self.tokens if has_signal else None,
            truncated_share=self.truncated / self.tokens if has_signal else None,
            clipped_share=self.clipped / self.tokens if has_signal else None,
            kl=self.kl_sum / self.tokens if has_signal else None,
            staleness_mean=self.staleness_sum / self.rows if has_signal else None,
            staleness_max=self.staleness_max if has_signal else None,
        )
