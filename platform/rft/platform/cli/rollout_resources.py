"""How rollouts, their calls and regrades of them are shown: their fields, as data."""

from rft.platform.cli.answers import Answer, Resource, Shown, Styled, styled
from rft.platform.cli.formats import NOTHING, clock


def _end(rollout: Answer) -> Shown:
    if rollout.get("reward", float) is not None:
        return spelled(rollout.get("stop_reason", str))
    stage, code = rollout.get("failure_stage", str) or "", rollout.get("failure_code", str) or "failed"
    return styled(f"{stage} {code}".strip(), "red")


def spelled(code: str | None) -> str:
    """A code as words."""
    return (code or NOTHING).replace("_", " ")


ROLLOUT = Resource(
    fields="trace=id; >step; >row=row_index; >place=group_index; split; >reward; end; >tool calls;"
    " >tokens=completion_tokens; >took=duration_s",
    none="no such rollouts",
    spare="took; tokens; place; split; row; tool calls",
    special={"end": _end},
)


def _result(attempt: Answer) -> Styled:
    code, answered = attempt.get("code", str), attempt.get("status", int)
    return styled((code or "ok") + ("" if answered is None else f" ({answered})"), "red" if code else "green")


ATTEMPT = Resource(
    fields="time; endpoint={stage} {endpoint}; call=call_id; >try=attempt; result; >took=latency_ms; >queued=queued_ms",
    none="no calls",
    spare="queued; call; time",
    special={"time": lambda it: clock(it.need("at", float)), "result": _result},
)


def _without_score(regrade: Answer) -> str | None:
    codes = ", ".join(f"{code} {times}" for code, times in regrade.named("report.failures_by_code", int).items())
    failures = regrade.get("report.failures", int)
    return f"{failures:,} ({codes})" if failures else None


def _judge_tokens(regrade: Answer) -> str | None:
    kinds = ("prompt_tokens", "completion_tokens")
    used = regrade.children("report.judge_usage").items()
    return ", ".join(f"{name} {sum(it.get(kind, int) or 0 for kind in kinds):,}" for name, it in used) or None


REGRADE = Resource(
    fields="regrade=id; state=status; error=error.message; rollouts={report.n:,} in {report.groups:group};"
    " without a score; mean reward={report.reward_mean_before} -> {report.reward_mean_after};"
    " rank correlation={report.rank_correlation:.2f} (over {report.groups_ranked:group} that both tell apart);"
    " another best rollout=in {report.best_changed_share} of groups;"
    " groups with signal={report.signal_share_before:.1%} -> {report.signal_share_after:.1%}; judge tokens",
    none="no regrades",
    columns="regrade; state; >graded; created=created_at",
    spare="created",
    special={
        "without a score": _without_score,
        "judge tokens": _judge_tokens,
        "graded": lambda it: f"{it.get('done', int) or 0}/{it.get('total', int) or NOTHING}",
    },
)
