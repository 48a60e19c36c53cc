"""The share of an endpoint's traffic that retries may be. Pure, no clock."""

from dataclasses import dataclass


@dataclass(slots=True)
class RetryShare:
    """Keeps retries to a share of the attempts: a retry waits until it is covered, it is never denied.

    The law: of the attempts at an endpoint, at most `first + share * attempts + per_s * seconds` are retries, and those
    that were let off. `first` and `per_s` are there for a lone rollout, whose own traffic covers nothing. All that wait
    are let off at once when the endpoint answers, at most once in `let_off_every_s`: after an outage every call waits
    as a retry, and no first attempt comes that could cover it.
    """

    share: float = 0.3
    """Of a retry, that each ended attempt earns. Retries of an endpoint that fails more often than that wait."""
    first: float = 10.0
    most: float = 100.0
    """Not more than so many are saved up."""
    per_s: float = 0.1
    """Earned by waiting, so that nothing waits forever."""
    let_off_every_s: float = 30.0
    _tokens: float | None = None
    _let_off: int = 0
    _earned_s: float | None = None
    _next_let_off_s: float | None = None

    def covers(self, now_s: float) -> bool:
        """Whether one more retry may start."""
        if self._earned_s is not None:
            self._earn((now_s - self._earned_s) * self.per_s)
        self._earned_s = now_s
        return self._let_off > 0 or self._saved >= 1.0

    def on_start(self) -> None:
        """A covered retry starts."""
        if self._let_off > 0:
            self._let_off -= 1
        else:
            self._tokens = self._saved - 1.0

    def on_end(self) -> None:
        """An attempt of either kind ended."""
        self._earn(self.share)

    def on_answer(self, *, waiting: int, now_s: float) -> bool:
        """The endpoint answered while so many retries wait; whether they may start."""
        if self._next_let_off_s is not None and now_s < self._next_let_off_s:
            return False
        self._let_off, self._next_let_off_s = waiting, now_s + self.let_off_every_s
        return True

    @property
    def _saved(self) -> float:
        return self.first if self._tokens is None else self._tokens

    def _earn(self, tokens: float) -> None:
        self._tokens = min(self.most, self._saved + tokens)
