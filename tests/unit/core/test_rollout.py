"""Rollout keys: the seed follows from what the rollout is, and nothing a customer is sent."""

from hypothesis import given
from hypothesis import strategies as st

from rft.core.rollout import RolloutKey, Split
from rft.core.turns import TokenSpan, Trace

keys = st.builds(
    RolloutKey,
    job_id=st.sampled_from(["ftjob-a", "ftjob-b"]),
    job_seed=st.integers(0, 3),
    split=st.sampled_from(Split),
    step=st.integers(0, 3),
    epoch=st.integers(0, 3),
    row_index=st.integers(0, 3),
    index=st.integers(0, 3),
    attempt=st.integers(0, 2),
)


@given(keys)
def test_seeds_do_not_depend_on_the_job_but_on_its_seed(key: RolloutKey) -> None:
    assert key.seed == key.model_copy(update={"job_id": "ftjob-other"}).seed
    assert key.seed != key.model_copy(update={"job_seed": key.job_seed + 1}).seed
    assert key.seed != key.model_copy(update={"attempt": key.attempt + 1}).seed
    assert 0 <= key.seed < 2**63


@given(st.lists(st.tuples(st.lists(st.integers(0, 99)), st.booleans())))
def test_a_trace_reproduces_what_the_model_saw(parts: list[tuple[list[int], bool]]) -> None:
    trace = Trace(prompt_ids=(1, 2))
    for tokens, is_sampled in parts:
        ids = tuple(tokens)
        trace.append(TokenSpan.sampled(ids, (-0.5,) * len(ids)) if is_sampled else TokenSpan.context(ids))
    assert trace.token_ids == [1, 2, *(token for tokens, _ in parts for token in tokens)]
    assert len(trace.mask_T) == len(trace.logprobs_T) == len(trace.completion_ids_T)
    assert trace.sampled_tokens == sum(len(tokens) for tokens, is_sampled in parts if is_sampled)
    assert all(lp == 0.0 for lp, m in zip(trace.logprobs_T, trace.mask_T, strict=True) if not m)
