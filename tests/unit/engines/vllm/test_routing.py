"""Which server a rollout is sent to."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rft.engines.version_use import VersionUse
from rft.engines.vllm.routing import MOST_AHEAD, Router

SERVERS = ("a", "b", "c")


def router(*servers: str) -> Router:
    made = Router(servers)
    for server in servers:
        made.restored(server)
    return made


def test_new_rollouts_go_to_the_server_with_the_fewest_and_ties_to_the_least_recently_chosen() -> None:
    routed = router(*SERVERS)
    assert [routed.server_of(f"r{i}", f"g{i}") for i in range(6)] == ["a", "b", "c", "a", "b", "c"]
    routed.ended("r1")
    assert routed.server_of("r6", "g6") == "b"
    assert routed.server_of("r0", "g0") == "a", "a rollout stays where it is"


def test_siblings_follow_their_group_until_its_server_is_too_far_ahead() -> None:
    routed = router("a", "b")
    chosen = [routed.server_of(f"r{i}", "group") for i in range(MOST_AHEAD + 4)]
    assert chosen == [*["a"] * (MOST_AHEAD + 1), "b", "a", "b"]


def test_a_group_is_forgotten_with_its_last_rollout() -> None:
    routed = router("a", "b")
    assert routed.server_of("r0", "group") == "a"
    routed.ended("r0")
    assert routed.server_of("r1", "group") == "b"


def test_rollouts_of_a_lost_server_go_on_elsewhere_and_their_group_with_them() -> None:
    routed = router("a", "b")
    assert routed.server_of("r0", "group") == "a"
    routed.lost("a")
    assert routed.server_of("r0", "group") == routed.server_of("r1", "group") == "b"
    routed.restored("a")
    assert routed.server_of("r0", "group") == routed.server_of("r2", "group") == "b"
    routed.lost("a")
    routed.lost("b")
    assert routed.server_of("r0", "group") is routed.any_server() is None


@given(st.integers(2, 4), st.integers(1, 40), st.integers(2, 24))
def test_load_stays_even_and_groups_stay_together(servers: int, groups: int, group_size: int) -> None:
    names = tuple(str(number) for number in range(servers))
    routed = router(*names)
    for group in range(groups):
        for index in range(group_size):
            routed.server_of(f"{group}-{index}", str(group))
            load = [routed.active(name) for name in names]
            assert max(load) - min(load) <= MOST_AHEAD + 1


class Routed(RuleBasedStateMachine):
    """Any order of beginnings, ends, losses and returns."""

    def __init__(self) -> None:
        super().__init__()
        self.router, self.where, self.up = Router(SERVERS), dict[str, str](), set[str]()

    @rule(rollout=st.integers(0, 30))
    def sample(self, rollout: int) -> None:
        name = f"r{rollout}"
        server = self.router.server_of(name, f"g{rollout % 5}")
        if server is None:
            assert not self.up
            return
        assert server in self.up
        assert self.where.get(name, server) == server
        self.where[name] = server

    @rule(rollout=st.integers(0, 30))
    def end(self, rollout: int) -> None:
        self.router.ended(f"r{rollout}")
        self.where.pop(f"r{rollout}", None)

    @rule(server=st.sampled_from(SERVERS))
    def lose(self, server: str) -> None:
        self.router.lost(server)
        self.up.discard(server)
        self.where = {name: at for name, at in self.where.items() if at != server}

    @rule(server=st.sampled_from(SERVERS))
    def restore(self, server: str) -> None:
        self.router.restored(server)
        self.up.add(server)

    @precondition(lambda self: self.up)
    @rule()
    def sample_for_no_rollout(self) -> None:
        assert self.router.any_server() in self.up

    @invariant()
    def counts_are_right(self) -> None:
        for server in SERVERS:
            assert self.router.active(server) == sum(at == server for at in self.where.values())


TestRouted = Routed.TestCase


class Versions(RuleBasedStateMachine):
    """No version goes while somebody samples from it, and none stays that nobody needs."""

    def __init__(self) -> None:
        super().__init__()
        self.use, self.holds, self.newest, self.live = VersionUse(), dict[str, int](), 0, {0}

    @rule()
    def publish(self) -> None:
        self.newest += 1
        self.use.publish(self.newest)
        self.live.add(self.newest)

    @rule(holder=st.sampled_from("abcdef"), back=st.integers(0, 3))
    def hold(self, holder: str, back: int) -> None:
        version = max(0, self.newest - back)
        is_expected = self.holds.get(holder, version) == version and version in self.live
        assert self.use.hold(holder, version) == is_expected
        if is_expected:
            self.holds[holder] = version

    @rule(holder=st.sampled_from("abcdef"))
    def release(self, holder: str) -> None:
        self.use.release(holder)
        self.holds.pop(holder, None)

    @rule()
    def forget(self) -> None:
        for version in self.use.unused:
            self.use.forget(version)
            self.live.discard(version)

    @invariant()
    def only_unneeded_versions_are_unused(self) -> None:
        assert self.use.live == self.live
        assert self.use.unused == self.live - {self.newest, *self.holds.values()}


TestVersions = Versions.TestCase
