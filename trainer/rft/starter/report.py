"""What building a starter found out; written beside the weights as `starter.json`."""

from rft.core.base import Record


class Probes(Record):
    """How well the model copies on companies it never saw: share and mean probability of the right token."""

    year_accuracy: float
    """Year of the question, where a search query takes it over."""
    page_accuracy: float
    """Page of a search row, where `cat` takes it over."""
    metric_accuracy: float
    """Metric of the question, where the answer takes it over."""
    value_accuracy: float
    """Value of a report's row, where the answer takes it over."""
    year_probability: float
    page_probability: float
    metric_probability: float
    value_probability: float


class Baseline(Record):
    """Rollouts of the untrained policy with the tools in this process."""

    rollouts: int
    reward: float
    """Mean at temperature 1, as in training."""
    calls: float
    """Tool calls per rollout."""
    sampled_tokens: float
    answered: float
    """Share of rollouts that ended in an answer."""
    greedy_reward: float
    """Mean at temperature 0."""


class StarterReport(Record):
    """A starter that passed the gate."""

    seed: int
    """The seed asked for."""
    rounds: int
    """Rounds of training it took, over all starts; 1 when the first warm-up was enough."""
    probes: Probes
    baseline: Baseline
    parameters: int
    vocabulary: int
    seconds: float
    cpu_seconds: float
