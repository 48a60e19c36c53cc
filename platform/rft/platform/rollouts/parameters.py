"""A filter and an order of rollouts, as the query of a request has them."""

from typing import Annotated

from fastapi import Depends, Query

from rft.core.failure import FailureCode, Fault
from rft.core.rollout import Split, StopReason
from rft.platform.rollouts.filters import Order, Outcome, RolloutFilter, RolloutOrder, Sort

MAX_INTEGER = 2**31 - 1
Number = Annotated[int | None, Query(ge=0, le=MAX_INTEGER)]
Reward = Annotated[float | None, Query(allow_inf_nan=False)]
Seconds = Annotated[float | None, Query(ge=0, allow_inf_nan=False)]
Text = Annotated[str | None, Query(min_length=1, max_length=200)]


async def wanted_rollouts(
    split: Split | None = None,
    step: Number = None,
    from_step: Number = None,
    to_step: Number = None,
    row_index: Number = None,
    outcome: Outcome | None = None,
    min_reward: Reward = None,
    max_reward: Reward = None,
    stop_reason: StopReason | None = None,
    failure_code: FailureCode | None = None,
    fault: Annotated[Fault | None, Query(description="Whose doing a failure was.")] = None,
    tool: Annotated[Text, Query(description="Name of a tool that was called.")] = None,
    min_tokens: Number = None,
    max_tokens: Number = None,
    min_duration_s: Seconds = None,
    max_duration_s: Seconds = None,
    q: Annotated[
        Text, Query(description="Words that are all in the prompt or the answer; `word*` is the beginning of one.")
    ] = None,
    contains: Annotated[
        Text, Query(description="Text anywhere in the prompt or the answer; only together with one step.")
    ] = None,
) -> RolloutFilter:
    """Both ends of a range are in it."""
    return RolloutFilter.model_validate(locals())


async def rollout_order(sort: Sort = Sort.NEWEST, order: Order = "desc") -> RolloutOrder:
    """In which order they come."""
    return RolloutOrder(sort=sort, order=order)


Wanted = Annotated[RolloutFilter, Depends(wanted_rollouts)]
Ordered = Annotated[RolloutOrder, Depends(rollout_order)]
