"""A rollout's tokens: told by the trainer, stored beside the rollout, read token by token."""

from collections.abc import Sequence
from math import exp

import httpx
import pytest

from rft.core.events import RatiosMeasured, RolloutDone, RunStarted, TokensSampled, TrainEvent
from rft.core.rollout import Split
from rft.core.token_record import pack_float16, pack_tokens, prompt_name
from rft.core.turns import TokenSpan
from tests.integration.worker.ingesting import leased, store
from tests.integration.worker.workbench import Workbench
from tests.shared.train_events import began, logged, rollout_done

PROMPT = pack_tokens(TokenSpan.context((10, 11, 12)))
PIECES = {10: b"<|im_start|>", 11: b"How", 12: b" much\n", 20: b"4\x00", 21: b"\xf0\x9f", 22: b"\x98\x80", 30: b"<b>"}
COMPLETION = TokenSpan((20, 21, 22, 30, 20), (True, True, True, False, True), (-0.5, -2.0, -0.25, 0.0, -4.0))


def sampled(done: RolloutDone, *, is_first: bool = True, completion: TokenSpan = COMPLETION) -> TokensSampled:
    """Its tokens, with what they share where nobody told it before."""
    return TokensSampled(
        trace_id=done.trace_id,
        prompt=prompt_name(PROMPT),
        completion=pack_tokens(completion),
        new_prompt=PROMPT if is_first else None,
        new_pieces=PIECES if is_first else {},
    )


def measured(done: RolloutDone, log_ratios: Sequence[float], *, advantage: float = -0.5) -> RatiosMeasured:
    return RatiosMeasured(trace_id=done.trace_id, advantage=advantage, log_ratios=pack_float16(log_ratios))


async def test_tokens_are_read_as_they_were_sampled_page_by_page(bench: Workbench, http: httpx.AsyncClient) -> None:
    ingest = await leased(bench)
    job_id = ingest.lease.id
    first, second = rollout_done(job_id, 1, 0), rollout_done(job_id, 1, 1)
    events: list[TrainEvent] = [RunStarted(resumed_from_step=None, total_steps=2, pid=1), sampled(first), first]
    events += [sampled(second, is_first=False), second, measured(second, [0.0, 0.5, -0.5, float("nan")])]
    await store(bench, ingest, logged(events))
    url = f"/{job_id}/rollouts/{second.trace_id}/tokens"
    page = (await http.get(url)).json()
    assert [page[name] for name in ("prompt_tokens", "total_tokens", "sampled_tokens", "advantage", "missing")] == [
        3, 8, 4, -0.5, None,
    ]  # fmt: skip
    assert [token["token_id"] for token in page["data"]] == [10, 11, 12, 20, 21, 22, 30, 20]
    assert "".join(token["text"] for token in page["data"]) == (
        "<|im_start|>How much\n4\x00\\xf0\\x9f\\x98\\x80<b>4\x00"
    )
    assert [token["logprob"] for token in page["data"]] == [None, None, None, -0.5, -2.0, -0.25, None, -4.0]
    assert [token["is_sampled"] for token in page["data"]] == [token["logprob"] is not None for token in page["data"]]
    ratios = [token["importance_ratio"] for token in page["data"]]
    assert [None if ratio is None else round(ratio, 6) for ratio in ratios] == [
        None, None, None, 1.0, round(exp(0.5), 6), round(exp(-0.5), 6), None, None,
    ]  # fmt: skip
    assert page["has_more"] is False
    untrained = (await http.get(f"/{job_id}/rollouts/{first.trace_id}/tokens")).json()
    assert untrained["advantage"] is None
    assert {token["importance_ratio"] for token in untrained["data"]} == {None}
    found: list[object] = []
    after: dict[str, str] = {}
    while True:
        part = (await http.get(url, params={"limit": 3, **after})).json()
        found += part["data"]
        if not part["has_more"]:
            break
        after = {"after": part["last_id"]}
    assert found == page["data"]


async def test_what_is_told_again_takes_the_place_of_what_was(bench: Workbench, http: httpx.AsyncClient) -> None:
    ingest = await leased(bench)
    job_id = ingest.lease.id
    done = rollout_done(job_id, 1, 0)
    shorter = TokenSpan.sampled((20,), (-1.0,))
    await store(bench, ingest, logged([sampled(done), done, measured(done, [0.0] * 4)]))
    again: list[TrainEvent] = [sampled(done, completion=shorter), sampled(done, completion=shorter)]
    await store(bench, ingest, logged([*again, done, measured(done, [1.0], advantage=2.0)], after=3))
    page = (await http.get(f"/{job_id}/rollouts/{done.trace_id}/tokens")).json()
    assert [token["token_id"] for token in page["data"]] == [10, 11, 12, 20]
    assert (page["advantage"], page["data"][-1]["importance_ratio"]) == (2.0, pytest.approx(exp(1.0)))


async def test_where_nothing_is_kept_it_is_said(bench: Workbench, http: httpx.AsyncClient) -> None:
    ingest = await leased(bench)
    job_id = ingest.lease.id
    done, under_way = rollout_done(job_id, 1, 0), rollout_done(job_id, 1, 1, split=Split.VALID)
    await store(bench, ingest, logged([began(under_way), done]))
    for rollout in (done, under_way):
        page = (await http.get(f"/{job_id}/rollouts/{rollout.trace_id}/tokens")).json()
        assert (page["data"], page["total_tokens"], page["has_more"]) == ([], 0, False)
        assert "are not kept" in page["missing"]
    for path in (f"/{job_id}/rollouts/trace_no/tokens", f"/ftjob-no/rollouts/{done.trace_id}/tokens"):
        reply = await http.get(path)
        assert (reply.status_code, reply.json()["error"]["code"]) == (
            404,
            "not_found" if "trace_no" in path else "fine_tune_not_found",
        )


async def test_a_place_that_is_none_is_refused(bench: Workbench, http: httpx.AsyncClient) -> None:
    ingest = await leased(bench)
    done = rollout_done(ingest.lease.id, 1, 0)
    await store(bench, ingest, logged([sampled(done), done]))
    url = f"/{ingest.lease.id}/rollouts/{done.trace_id}/tokens"
    assert (await http.get(url, params={"after": "7"})).json()["data"] == []
    for after in ("8", "-1", "x", "²", "9" * 30):
        reply = await http.get(url, params={"after": after})
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_cursor"), after
