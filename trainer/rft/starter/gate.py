"""What a starter must be before anybody trains it."""

from dataclasses import dataclass

from rft.starter.report import Baseline, Probes


@dataclass(frozen=True, slots=True)
class Gate:
    """The limits. Reinforcement learning repairs strategy, never a missing skill; and it needs room to improve."""

    accuracy: float = 0.95
    """Least accuracy of every copy probe."""
    reward_low: float = 0.24
    reward_high: float = 0.41
    """Narrower than the 0.20-0.45 wanted of the platform's own baseline: both are estimates."""
    reward_aim: float = 0.32
    """Where training on steers to."""

    def problems(self, probes: Probes, baseline: Baseline) -> list[str]:
        """Why this starter may not pass; empty when it may."""
        accuracies = {
            "year": probes.year_accuracy,
            "page": probes.page_accuracy,
            "metric": probes.metric_accuracy,
            "value": probes.value_accuracy,
        }
        problems = [
            f"{name} accuracy {accuracy:.2f} is below {self.accuracy:.2f}"
            for name, accuracy in accuracies.items()
            if accuracy < self.accuracy
        ]
        if not self.reward_low <= baseline.reward <= self.reward_high:
            problems.append(
                f"baseline reward {baseline.reward:.2f} is outside {self.reward_low:.2f}-{self.reward_high:.2f}"
            )
        return problems
