"""Which policy versions are still needed: the newest one, and those that some rollout samples from. Pure."""

from collections import Counter


class VersionUse:
    """Counts who holds which version. Version 0 is there from the beginning: the base model."""

    def __init__(self) -> None:
        self._newest = 0
        self._live: set[int] = {0}
        self._held: dict[str, int] = {}
        """By holder: a rollout, or a request that belongs to none."""
        self._holders: Counter[int] = Counter()

    @property
    def newest(self) -> int:
        """What new rollouts sample from."""
        return self._newest

    @property
    def live(self) -> frozenset[int]:
        """What every server has to have."""
        return frozenset(self._live)

    @property
    def held(self) -> frozenset[int]:
        """What somebody samples from."""
        return frozenset(self._held.values())

    @property
    def unused(self) -> frozenset[int]:
        """Live versions that nobody needs any more."""
        return frozenset(version for version in self._live if version != self._newest and not self._holders[version])

    def publish(self, version: int) -> None:
        """New rollouts sample from this version from now on."""
        self._newest = version
        self._live.add(version)

    def serve_too(self, version: int) -> None:
        """The version can be sampled from; new rollouts go on with the newest."""
        self._live.add(version)

    def replace(self, version: int) -> None:
        """Everything samples from this version from now on: all others are gone, whoever held them."""
        self._newest, self._live = version, {version}
        self._held.clear()
        self._holders.clear()

    def hold(self, holder: str, version: int) -> bool:
        """Keep the version live until `release`; False where it is gone. A holder keeps to its first version."""
        if holder in self._held:
            return self._held[holder] == version
        if version not in self._live:
            return False
        self._held[holder] = version
        self._holders[version] += 1
        return True

    def release(self, holder: str) -> None:
        """The holder samples no more; one that holds nothing is none of ours."""
        version = self._held.pop(holder, None)
        if version is not None:
            self._holders[version] -= 1

    def forget(self, version: int) -> None:
        """An unused version is gone."""
        if version not in self.unused:
            raise ValueError(f"version {version} is in use")
        self._live.discard(version)
