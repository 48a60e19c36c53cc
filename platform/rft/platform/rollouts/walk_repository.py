"""The SQL of a page of rollouts: where they are looked for, and in which order they come.

Every walk reads the places of rollouts alone (`_PLACE`), along an index that has all that a filter asks about; the rows
themselves are read of the page that was found. Rollouts may share a place: a step that has fewer rows than its batch
takes a row in several epochs at once. So the places only bound what is read; which of those rollouts are wanted, and in
which order, is asked of the rows once more.
"""

from typing import LiteralString

from rft.core.rollout import Split
from rft.platform.rollouts.filters import RolloutFilter, RolloutOrder, Sort, conditions
from rft.platform.store.rollout_columns import PREVIEWS, SUMMARY
from rft.platform.store.said import STEPS_TOGETHER

_PLACE: LiteralString = "split, step, row_index, group_index, attempt"
_OF_SPLIT: dict[Split, LiteralString] = {
    Split.TRAIN: "split = 'train'",
    Split.VALID: "split = 'valid'",
    Split.TEST: "split = 'test'",
}
_COLUMN: dict[Sort, LiteralString] = {
    Sort.REWARD: "reward",
    Sort.COMPLETION_TOKENS: "completion_tokens",
    Sort.DURATION_S: "duration_s",
    Sort.TOOL_CALLS: "tool_calls",
}
_NEWEST: LiteralString = "step desc, split, row_index, group_index, attempt"
_OLDEST: LiteralString = "step, split desc, row_index desc, group_index desc, attempt desc"
_AT: LiteralString = "(split, row_index, group_index, attempt)"
_AFTER: LiteralString = "(%(after_split)s, %(after_row_index)s, %(after_group_index)s, %(after_attempt)s)"
_BEHIND: LiteralString = (
    "(step < %(after_step)s or step = %(after_step)s and " + _AT + " > " + _AFTER + ")"
)  # fmt: skip
_BEFORE: LiteralString = (
    "(step > %(after_step)s or step = %(after_step)s and " + _AT + " < " + _AFTER + ")"
)  # fmt: skip
_BESIDE: LiteralString = "step = %(after_step)s and " + _AT + " = " + _AFTER + " and trace_id"
_EXACTLY_BEHIND: LiteralString = "(" + _BEHIND + " or " + _BESIDE + " > %(after_trace_id)s)"
_EXACTLY_BEFORE: LiteralString = "(" + _BEFORE + " or " + _BESIDE + " < %(after_trace_id)s)"
_AFTER_PLACE: LiteralString = (
    " union all select %(after_split)s, %(after_step)s, %(after_row_index)s, %(after_group_index)s, %(after_attempt)s"
)
_STEPS_TOGETHER: LiteralString = "32"
assert int(_STEPS_TOGETHER) == STEPS_TOGETHER


class Walk:
    """One page's walk through a job's rollouts, from the front or from behind a rollout (`after_*` in its values)."""

    def __init__(
        self,
        wanted: RolloutFilter,
        order: RolloutOrder,
        *,
        after: Split | None,
        has_value: bool,
        is_back: bool,
        is_bit_shared: bool,
        is_bounded: bool,
    ) -> None:
        """`after`: the split of the rollout behind which it begins; `has_value`: that one has what is sorted by.

        `is_back`: the other way round, from the rollout to the front. `is_bounded`: what is wanted lies between the
        steps `first` and `last`.
        """
        self._wanted, self._after, self._has_value, self._is_back = wanted, after, has_value, is_back
        self._column: LiteralString | None = _COLUMN.get(order.sort)
        self._is_upwards = (order.order == "asc") is not is_back
        # Within what is equal in a column, rollouts stand as in `newest`, whatever the column's direction.
        self._is_oldest_first = is_back if self._column is not None else self._is_upwards
        bounds: LiteralString = " and step between %(first)s and %(last)s" if is_bounded else ""
        self._filters: LiteralString = bounds + conditions(wanted, is_bit_shared=is_bit_shared)

    def page(self) -> LiteralString:
        """The rows themselves, in order."""
        exactly: LiteralString = _EXACTLY_BEFORE if self._is_oldest_first else _EXACTLY_BEHIND
        return (
            "with places as materialized (" + self._places() + ") select " + SUMMARY + ", " + PREVIEWS
            + " from rollouts where job_id = %(job_id)s and (" + _PLACE + ") in (select " + _PLACE + " from places"
            + ("" if self._after is None else _AFTER_PLACE) + ")" + self._filters + self._beyond(exactly)
            + self._order() + ", trace_id" + (" desc" if self._is_oldest_first else "") + " limit %(limit)s"
        )  # fmt: skip

    def _places(self) -> LiteralString:
        limit: LiteralString = " limit %(limit)s"
        if self._wanted.q is not None:
            return self._by_terms() + self._order() + limit
        if self._column is not None:
            split: LiteralString = "" if self._wanted.split is None else " and split = %(split)s"
            return self._from_rollouts(split + self._filters + self._beyond(self._key())) + self._order() + limit
        walks: list[LiteralString] = []
        for one in Split if self._wanted.split is None else (self._wanted.split,):
            for beyond in self._beyond_of(one):
                walk = self._from_rollouts(" and " + _OF_SPLIT[one] + beyond + self._filters) + self._order() + limit
                walks.append("(" + walk + ")")
        return "select * from (" + " union all ".join(walks) + ") as walks" + self._order() + limit

    def _from_rollouts(self, filters: LiteralString) -> LiteralString:
        column: LiteralString = "" if self._column is None else ", " + self._column
        return "select " + _PLACE + column + " from rollouts where job_id = %(job_id)s" + filters

    def _by_terms(self) -> LiteralString:
        """Some steps at a time, in order, as long as the page is not full; sorted by a column, all of them."""
        column: LiteralString = "" if self._column is None else ", " + self._column
        within: LiteralString = self._order() + " limit %(limit)s" if self._column is None else ""
        split: LiteralString = "" if self._wanted.split is None else " and split = %(split)s"
        steps: LiteralString = (
            "generate_series(%(first)s / " + _STEPS_TOGETHER + ", %(last)s / " + _STEPS_TOGETHER + ")"
            if self._is_oldest_first
            else "generate_series(%(last)s / " + _STEPS_TOGETHER + ", %(first)s / " + _STEPS_TOGETHER + ", -1)"
        )
        places: LiteralString = (
            "select split as found_split, step as found_step, array_agg(distinct one) as found_rows"
            " from rollout_terms, unnest(rows) as one where terms @@"
            " (%(terms)s::tsquery && ('''' || %(job_id)s || '/' || together || '''')::tsquery)" + split
            + " group by split, step order by step" + ("" if self._is_oldest_first else " desc")
            + ", split" + (" desc" if self._is_oldest_first else "")
        )  # fmt: skip
        found: LiteralString = (
            self._from_rollouts(
                " and split = found_split and step = found_step and row_index = any(found_rows)"
                + self._filters
                + self._beyond(self._key())
            )
            + within
        )
        return (
            "select " + _PLACE + column + " from (select * from " + steps + " as together cross join lateral ("
            + places + ") as places cross join lateral (" + found + ") as found"
            + (" limit %(limit)s" if self._column is None else "") + ") as walked"
        )  # fmt: skip

    def _order(self) -> LiteralString:
        key: LiteralString = _OLDEST if self._is_oldest_first else _NEWEST
        if self._column is None:
            return " order by " + key
        direction: LiteralString = " asc" if self._is_upwards else " desc"
        nulls: LiteralString = " nulls first, " if self._is_back else " nulls last, "
        return " order by " + self._column + direction + nulls + key

    def _key(self) -> LiteralString:
        """At a place behind that of the rollout that it begins behind."""
        return _BEFORE if self._is_oldest_first else _BEHIND

    def _beyond(self, key: LiteralString) -> LiteralString:
        """Behind the rollout that it begins behind; `key`: where the two are equal in the column."""
        if self._after is None:
            return ""
        if self._column is None:
            return " and " + key
        if not self._has_value:
            there: LiteralString = " is not null or " if self._is_back else " is null and "
            return " and (" + self._column + there + key + ")"
        further: LiteralString = " > %(after_value)s" if self._is_upwards else " < %(after_value)s"
        unscored: LiteralString = "" if self._is_back else " or " + self._column + " is null"
        return (
            " and (" + self._column + further + unscored + " or "
            + self._column + " = %(after_value)s and " + key + ")"
        )  # fmt: skip

    def _beyond_of(self, split: Split) -> tuple[LiteralString, ...]:
        """The same within one split, as ranges of an index."""
        after = self._after
        if after is None:
            return ("",)
        is_later = split < after if self._is_oldest_first else split > after
        if self._is_oldest_first:
            at: LiteralString = " and step >= %(after_step)s"
            beyond: LiteralString = " and step > %(after_step)s"
            than: LiteralString = " < "
        else:
            at, beyond, than = " and step <= %(after_step)s", " and step < %(after_step)s", " > "
        if split is not after:
            return (at,) if is_later else (beyond,)
        beside: LiteralString = (
            " and step = %(after_step)s and (row_index, group_index, attempt)" + than
            + "(%(after_row_index)s, %(after_group_index)s, %(after_attempt)s)"
        )  # fmt: skip
        return (beside, beyond)
