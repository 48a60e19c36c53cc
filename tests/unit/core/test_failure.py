"""Blame is total: every code has one fault."""

import pytest

from rft.core.failure import FAULTS, Failure, FailureCode, Fault, Stage
from rft.core.grade import TokenUsage


def test_every_code_has_a_fault() -> None:
    assert set(FAULTS) == set(FailureCode)
    assert set(FAULTS.values()) == set(Fault)


@pytest.mark.parametrize("code", FailureCode)
def test_a_failure_knows_whose_fault_it_is(code: FailureCode) -> None:
    assert Failure(stage=Stage.TOOL, code=code, message="m").fault is FAULTS[code]


@pytest.mark.parametrize("rollouts", range(4))
@pytest.mark.parametrize("usage", [{}, {"judge": TokenUsage(prompt_tokens=3)}])
def test_one_failure_of_many_rollouts_tells_of_its_tokens_once(rollouts: int, usage: dict[str, TokenUsage]) -> None:
    failure = Failure(stage=Stage.GRADER, code=FailureCode.TIMEOUT, message="m", usage=usage)
    assert (failure.attempts, failure.elapsed_s) == (1, 0.0)
    shared = failure.shared_by(rollouts)
    assert [one.usage for one in shared] == [usage, {}, {}][:rollouts]
    assert [one.model_copy(update={"usage": usage}) for one in shared] == [failure] * rollouts
