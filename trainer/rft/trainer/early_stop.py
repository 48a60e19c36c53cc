"""When a run ends before its last step: what its evaluations so far say. Pure."""

from collections.abc import Sequence
from itertools import pairwise

from rft.core.base import JsonObject, Record
from rft.core.events import Notice
from rft.core.group import is_higher
from rft.core.spec import EarlyStop


class EvaluatedStep(Record):
    """One evaluation of a run, and how training went on the way to it."""

    step: int
    valid: float
    """Mean validation reward."""
    train: float | None
    """Mean training reward of the steps since the evaluation before; None at step 0, or where nothing was graded."""


def early_stop_notice(rule: EarlyStop, evaluated: Sequence[EvaluatedStep]) -> Notice | None:
    """What is told when the run ends with the last of these evaluations, with the evidence; None where it goes on."""
    for code, steps, why in (
        _target_reached(rule, evaluated),
        _plateau(rule, evaluated),
        _overfitting(rule, evaluated),
    ):
        if steps:
            message = f"Training ends with step {evaluated[-1].step}: {why}. The best checkpoint is kept"
            data: JsonObject = {"reason": code, "evidence": [one.model_dump(mode="json") for one in steps]}
            return Notice(level="info", code="early_stop", message=message, data=data)
    return None


_Finding = tuple[str, Sequence[EvaluatedStep], str]
"""Name of the reason, the evaluations that show it (none where it does not hold), and in words."""


def _target_reached(rule: EarlyStop, evaluated: Sequence[EvaluatedStep]) -> _Finding:
    last = evaluated[-1]
    is_reached = rule.target_reward is not None and not is_higher(rule.target_reward, than=last.valid)
    why = f"the validation reward {last.valid:.3f} reached the target {rule.target_reward}"
    return "target", [last] if is_reached else [], why


def _plateau(rule: EarlyStop, evaluated: Sequence[EvaluatedStep]) -> _Finding:
    count = rule.plateau_evaluations or 0
    before, last = evaluated[:-count], evaluated[-count:]
    if not count or not before:
        return "plateau", [], ""
    best = max(before, key=lambda one: one.valid)
    is_flat = not is_higher(max(one.valid for one in last), than=best.valid)
    why = f"none of the last {count} evaluations was better than the {best.valid:.3f} of step {best.step}"
    return "plateau", [best, *last] if is_flat else [], why


def _overfitting(rule: EarlyStop, evaluated: Sequence[EvaluatedStep]) -> _Finding:
    count = rule.overfitting_evaluations or 0
    shown = evaluated[-count - 1 :]
    if not count or len(shown) <= count:
        return "overfitting", [], ""
    falls = all(is_higher(earlier.valid, than=later.valid) for earlier, later in pairwise(shown))
    # Before step 0 nothing was trained. Of any other step an unknown figure leaves open whether training rose.
    has_none = shown[0].step == 0 and shown[0].train is None
    trained = [one.train for one in (shown[1:] if has_none else shown)]
    rises = all(
        earlier is not None and later is not None and is_higher(later, than=earlier)
        for earlier, later in pairwise(trained)
    )
    why = f"validation fell {count} times in a row while training rose"
    return "overfitting", shown if falls and rises else [], why
