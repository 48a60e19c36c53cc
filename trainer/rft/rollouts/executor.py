"""All rollouts of a step at once: no barrier per turn or per group, so a slow tool delays its own rollout only."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import chain

from rft.core.dataset import DatasetRow
from rft.core.events import RoundRedone
from rft.core.group import Group
from rft.core.ids import seed_63
from rft.core.rollout import Rollout, RolloutKey, Split
from rft.rollouts.group import StepRow, group_keys, replacement_key
from rft.rollouts.group_state import GroupState
from rft.rollouts.hold import HoldExpired, UnrecoverableRound
from rft.rollouts.kept_rollouts import NOTHING_KEPT, KeptRollouts
from rft.rollouts.lost_rounds import LostRollouts, RoundLost
from rft.rollouts.replacements import Replacements
from rft.rollouts.round_state import OnRollout, RoundState
from rft.rollouts.setup import RolloutSetup


@dataclass(frozen=True, slots=True)
class StepRollouts:
    """What a step's rollouts came to."""

    groups: list[Group]
    """One per row, in order; each holds exactly group_size rollouts, the last one of each slot."""
    replaced: list[Rollout]
    """Failed rollouts that were replaced; excluded, but counted and shown."""
    unused: list[Group] = field(default_factory=list[Group])
    """Further groups that are counted and shown, and not trained on: the platform lost too much of their round."""
    resampled: int = 0
    """Rollouts of further rows, in place of groups without signal; those that were replaced are among them."""

    @property
    def all_groups(self) -> list[Group]:
        """Also those that are not trained on."""
        return [*self.groups, *self.unused]


async def run_step(
    rows: Sequence[StepRow],
    *,
    setup: RolloutSetup,
    job_id: str,
    job_seed: int,
    step: int,
    group_size: int,
    replacement_share: float,
    on_rollout: OnRollout,
    so_far: Sequence[Group] = (),
    kept: KeptRollouts = NOTHING_KEPT,
) -> StepRollouts:
    """Roll out every training row `group_size` times. Cancelling it cancels every rollout.

    `so_far`: groups of the step that have ended. The rows are further ones of it then: how much may fail is judged of
    the step as a whole, and what the platform lost of them is not rolled out anew.
    `kept`: rollouts of earlier processes that keep their places; they are not told again.
    Raises HoldExpired, UnrecoverableRound where too many failed in a way that waiting does not heal, and RoundLost
    where the platform lost too many twice.
    """
    # A further row has, or had, its own turn in the epoch, and may be a further one of other steps, too: with the same
    # random numbers each time these rollouts would be no fresh draws.
    seed = seed_63("further rows", job_seed, step) if so_far else job_seed
    keys = [
        group_keys(
            place.row.index,
            job_id=job_id,
            job_seed=seed,
            split=Split.TRAIN,
            step=step,
            epoch=place.epoch,
            group_size=group_size,
        )
        for place in rows
    ]
    taken = [place.row for place in rows]
    wanted = (taken, keys, step, setup, replacement_share, on_rollout, kept)
    if so_far:
        return await _roll_out(*wanted, is_trained_on=True, so_far=so_far)
    return await _round(*wanted, is_trained_on=True)


async def run_evaluation(
    rows: Sequence[DatasetRow],
    *,
    setup: RolloutSetup,
    job_id: str,
    job_seed: int,
    step: int,
    samples: int,
    on_rollout: OnRollout,
    split: Split = Split.VALID,
    kept: KeptRollouts = NOTHING_KEPT,
) -> StepRollouts:
    """Roll out every row `samples` times; another split draws other seeds. Raises HoldExpired and RoundLost.

    Failed rollouts are excluded, and replaced only where the run is held for them. `kept`: as in `run_step`.
    """
    keys = [
        group_keys(row.index, job_id=job_id, job_seed=job_seed, split=split, step=step, epoch=step, group_size=samples)
        for row in rows
    ]
    return await _round(rows, keys, step, setup, 0.0, on_rollout, kept, is_trained_on=False)


async def _round(
    rows: Sequence[DatasetRow],
    keys: Sequence[Sequence[RolloutKey]],
    step: int,
    setup: RolloutSetup,
    replacement_share: float,
    on_rollout: OnRollout,
    kept: KeptRollouts,
    *,
    is_trained_on: bool,
) -> StepRollouts:
    """The round, or the one rolled out anew in its place where the platform lost too much of it.

    The new one has seeds of its own: a bug of ours that follows from a seed would only come again.
    """
    done = await _roll_out(rows, keys, step, setup, replacement_share, on_rollout, kept, is_trained_on=is_trained_on)
    lost = LostRollouts(done.groups, share=setup.platform_failure_share)
    if not lost.is_too_many:
        return done
    what = f"step {step}" if is_trained_on else f"the evaluation of step {step}"
    message = lost.message(what)
    if setup.on_redo is not None:
        setup.on_redo(
            RoundRedone(
                step=step,
                split=keys[0][0].split,
                rollouts=lost.rollouts,
                lost=len(lost.failures),
                failures_by_code=lost.by_code,
                message=f"All rollouts of {what} are done anew: {message}",
            )
        )
    keys = [[replacement_key(rollout.key) for rollout in group.rollouts] for group in done.groups]
    done = await _roll_out(
        rows, keys, step, setup, replacement_share, on_rollout, NOTHING_KEPT, is_trained_on=is_trained_on
    )
    again = LostRollouts(done.groups, share=setup.platform_failure_share)
    if not again.is_too_many:
        return done
    raise RoundLost(f"Twice in a row {again.message(what)} Nothing was made of these rollouts.")


async def _roll_out(
    rows: Sequence[DatasetRow],
    keys: Sequence[Sequence[RolloutKey]],
    step: int,
    setup: RolloutSetup,
    replacement_share: float,
    on_rollout: OnRollout,
    kept: KeptRollouts,
    *,
    is_trained_on: bool,
    so_far: Sequence[Group] = (),
) -> StepRollouts:
    """One round as it comes out."""
    replacements = Replacements(rollouts=sum(len(row_keys) for row_keys in keys), share=replacement_share)
    groups: list[GroupState] = []
    for row, row_keys in zip(rows, keys, strict=True):
        # One verdict judges a group of a grader of whole groups: what kept its grade would meet another verdict.
        taken = kept.take(row_keys, only_whole=setup.group_grader is not None)
        replacements.restore([failed for one in taken if one is not None for failed in one.failed])
        groups.append(GroupState.begun(row, row_keys, taken))
    kept.drop_refused()
    others = list(chain.from_iterable(group.rollouts for group in so_far))
    state = RoundState(groups, setup, replacements, on_rollout, is_trained_on=is_trained_on, others=others)
    try:
        async with setup.hold.round(step) if setup.hold is not None else nullcontext() as hold:
            with setup.live.round([slot for group in groups for slot in group.slots]):
                await state.fill(hold)
    except (HoldExpired, UnrecoverableRound):
        state.settle()  # These are told, although nothing is made of them.
        raise
    except ExceptionGroup as errors:
        # Only who is told of a rollout can raise here; the caller wants that exception, not our wrapping.
        raise _first_of(errors) from errors
    finally:
        state.abandon()
        setup.prompts.forget()
    return StepRollouts([group.group() for group in groups], replacements.replaced)


def _first_of(errors: ExceptionGroup) -> Exception:
    """Groups are in groups where rollouts are filled together."""
    first: Exception = errors
    while isinstance(first, ExceptionGroup):
        first = first.exceptions[0]
    return first
