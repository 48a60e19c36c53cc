"""What the jobs that call an endpoint allow it, each for itself; together the strictest holds."""


def _strictest(*caps: int | None) -> int | None:
    return min((cap for cap in caps if cap is not None), default=None)


class OwnersCaps:
    """By owner (a job), and what they come to."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[int | None, float]] = {}
        self.concurrency: int | None = None
        """Calls inside at most."""
        self.interval_s = 0.0
        """Between two starts at least."""

    def tighten(self, owner: str, *, max_concurrency: int | None, rate_limit: float | None) -> None:
        """Of what an owner says more than once the strictest counts."""
        cap, interval_s = self._of.get(owner, (None, 0.0))
        self._of[owner] = _strictest(cap, max_concurrency), max(interval_s, 1.0 / rate_limit if rate_limit else 0.0)
        self._come_to()

    def loosen(self, owner: str) -> bool:
        """Remove those of an owner; whether there were any."""
        had = self._of.pop(owner, None) is not None
        self._come_to()
        return had

    def _come_to(self) -> None:
        self.concurrency = _strictest(*(cap for cap, _ in self._of.values()))
        self.interval_s = max((interval_s for _, interval_s in self._of.values()), default=0.0)
