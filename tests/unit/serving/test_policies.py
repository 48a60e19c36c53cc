"""Adapters of one base model take turns on an engine that samples from one at a time."""

import asyncio
from pathlib import Path

import pytest

from rft.core.errors import SamplerError
from rft.serving.policies import ServedPolicies
from rft.serving.refusals import RequestRefused
from rft.testing.samplers_time import VirtualTimeLoop, run_in_virtual_time

A, B = Path("a"), Path("b")


class Weights:
    """An engine that only remembers what it was given, and by whom it is used."""

    max_context_tokens = 100

    def __init__(self) -> None:
        self.policy_version = 0
        self.current: Path | None = None
        self.published: list[Path | None] = []
        self.using = 0

    async def publish(self, version: int, adapter_dir: Path) -> None:
        await self._change(version, adapter_dir)

    async def publish_base(self, version: int) -> None:
        await self._change(version, None)

    async def _change(self, version: int, adapter: Path | None) -> None:
        assert self.using == 0, "new weights while samples are in flight"
        await asyncio.sleep(1)
        if adapter == Path("broken"):
            raise SamplerError("cannot be read")
        if adapter == Path("no room"):
            raise OSError("No space left on device")
        self.policy_version, self.current = version, adapter
        self.published.append(adapter)

    async def sample(self, request: object) -> object:
        raise NotImplementedError

    async def close(self) -> None:
        pass


async def use(policies: ServedPolicies, weights: Weights, adapter: Path | None, seconds: float) -> None:
    async with policies.sampling_from(adapter) as version:
        assert (weights.current, weights.policy_version) == (adapter, version)
        weights.using += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            weights.using -= 1


def served(queue_s: float = 1000.0) -> tuple[ServedPolicies, Weights]:
    weights = Weights()
    return ServedPolicies(weights, queue_s=queue_s), weights  # pyright: ignore[reportArgumentType]


def test_those_who_want_the_same_sample_together_and_changes_wait_for_them() -> None:
    async def scene() -> tuple[list[Path | None], float]:
        policies, weights = served()
        wanted = [None, A, None, B, A, None, B]
        await asyncio.gather(*(use(policies, weights, adapter, 10) for adapter in wanted))
        return weights.published, asyncio.get_running_loop().time()

    published, took_s = run_in_virtual_time(scene())
    assert published == [A, None, B], "the first one alone: another adapter was waited for"
    assert took_s == 4 * 10 + 3 * 1


def test_who_wants_another_adapter_is_not_overtaken_for_ever() -> None:
    async def scene() -> float:
        policies, weights = served()
        got_in = asyncio.Event()

        async def keep_coming() -> None:
            while not got_in.is_set():
                await use(policies, weights, A, 4)

        async def other() -> float:
            await asyncio.sleep(7)
            async with policies.sampling_from(B):
                got_in.set()
                return asyncio.get_running_loop().time()

        crowd = [asyncio.create_task(keep_coming()) for _ in range(3)]
        at_s = await other()
        await asyncio.gather(*crowd)
        return at_s

    assert run_in_virtual_time(scene()) < 15


def test_waiting_too_long_is_refused_and_leaves_no_trace() -> None:
    async def scene() -> list[Path | None]:
        policies, weights = served(queue_s=5)
        long = asyncio.create_task(use(policies, weights, None, 20))
        await asyncio.sleep(0)
        with pytest.raises(RequestRefused) as raised:
            await use(policies, weights, A, 1)
        assert raised.value.refused.code == "other_checkpoint_in_use"
        assert raised.value.refused.retry_after_s
        await use(policies, weights, None, 1)
        await long
        return weights.published

    assert run_in_virtual_time(scene()) == []


def test_a_client_that_leaves_while_it_waits_holds_nobody_up() -> None:
    async def scene() -> float:
        policies, weights = served()
        first = asyncio.create_task(use(policies, weights, None, 10))
        gone = asyncio.create_task(use(policies, weights, A, 1000))
        await asyncio.sleep(1)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        await use(policies, weights, None, 2)
        at_s = asyncio.get_running_loop().time()
        await first
        await use(policies, weights, B, 1)
        return at_s

    assert run_in_virtual_time(scene()) == 3


def test_who_is_let_in_as_its_patience_ends_keeps_no_place_for_ever() -> None:
    async def scene() -> None:
        policies, weights = served(queue_s=5)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        long = asyncio.create_task(use(policies, weights, None, 12))
        await asyncio.sleep(2)
        in_front = asyncio.create_task(use(policies, weights, A, 1))
        late = asyncio.create_task(use(policies, weights, None, 1))
        await asyncio.sleep(1)
        in_front.cancel()  # In its next step it lets in who waits behind it,
        loop.be_busy(5)  # whose patience has ended in the same pass of the loop.
        await asyncio.gather(in_front, late, return_exceptions=True)
        await long
        await use(policies, weights, B, 1)

    run_in_virtual_time(scene())


def test_who_is_let_in_and_leaves_at_once_gives_its_place_to_the_next() -> None:
    async def scene() -> float:
        policies, weights = served()
        last = asyncio.create_task(use(policies, weights, None, 10))
        await asyncio.sleep(1)
        in_front = asyncio.create_task(use(policies, weights, A, 1))
        let_in = asyncio.create_task(use(policies, weights, None, 1))
        other = asyncio.create_task(use(policies, weights, B, 1))
        await asyncio.sleep(1)
        in_front.cancel()
        last.cancel()
        await asyncio.sleep(0)  # Both have gone, and one was let in.
        let_in.cancel()
        await other
        return asyncio.get_running_loop().time()

    assert run_in_virtual_time(scene()) == 2 + 1 + 1


def test_an_adapter_that_cannot_be_loaded_is_an_error_for_those_who_want_it_alone() -> None:
    async def scene() -> None:
        policies, weights = served()
        broken = [use(policies, weights, Path("broken"), 1) for _ in range(2)]
        *failed, well = await asyncio.gather(*broken, use(policies, weights, A, 1), return_exceptions=True)
        assert [type(error) for error in failed] == [SamplerError, SamplerError]
        assert well is None

    run_in_virtual_time(scene())


@pytest.mark.parametrize("others", [A, None])
def test_what_is_not_expected_while_an_adapter_is_loaded_is_told_and_holds_nobody_up(others: Path | None) -> None:
    async def scene() -> float:
        policies, weights = served()
        failed, well = await asyncio.gather(
            use(policies, weights, Path("no room"), 1), use(policies, weights, others, 1), return_exceptions=True
        )
        assert isinstance(failed, SamplerError)
        assert "No space left on device" in str(failed)
        assert well is None
        return asyncio.get_running_loop().time()

    assert run_in_virtual_time(scene()) < 5


def test_an_adapter_that_cannot_be_loaded_leaves_the_one_being_served_to_its_users() -> None:
    async def scene() -> list[Path | None]:
        policies, weights = served()
        await use(policies, weights, A, 1)
        with pytest.raises(SamplerError):
            await use(policies, weights, Path("broken"), 1)
        await use(policies, weights, A, 1)
        await use(policies, weights, B, 1)
        return weights.published

    assert run_in_virtual_time(scene()) == [A, B]
