"""`make bench-loop`: a customer's own agent loop beside the platform's evaluation -> var/bench/loop.json.

The demo's job trains; then 200 questions that neither trained the policy nor chose its checkpoint are asked of the
untrained policy and of the best checkpoint, always the likeliest token. Once by the platform's evaluation, which calls
the customer's server; once by the official SDK over `/v1/chat/completions` with the same tools and grader in the
customer's code, within the same limits. The two are to come to the same tokens, and so to the same rewards; but where
the platform's ends at a call too many that cannot be read, the customer's may go on.

A quarter of an hour on 2 cores.
"""

import argparse
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from openai import OpenAI

from rft.core.rollout import Rollout, StopReason
from rft.core.spec import RunSecrets
from rft.run_directory.files import read_spec
from rft.trainer.evaluate import Wanted, evaluate
from tests.bench.demo_platform import DemoPlatform, demo, demo_platform
from tests.shared.customer_loop import Conversed, Limits, converse

sys.path.insert(0, str(demo.MINI))  # what lies there is the customer's: its modules import each other by bare name

from examples.finqa_mini.corpus import Library, write_reports
from examples.finqa_mini.server import grade

BASE = "starter"
DATA_SEED = 5
JOB_SEED = 1
AT_ONCE = 4
PARAMETERS = {"search": "query", "list": "path", "cat": "path"}


@dataclass(slots=True)
class CustomerTools:
    """The tools in the customer's code. They are never called wrongly there: mistakes get the platform's words."""

    library: Library = field(default_factory=lambda: Library(write_reports()))
    mistakes: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """What the model read of calls that no tool takes, by name and arguments."""

    def call(self, name: str, arguments: str) -> str:
        """The output. Raises KeyError for a mistake that the platform's rollouts did not make."""
        value = self._value(name, arguments)
        return self.mistakes[name, arguments] if value is None else getattr(self.library, name)(value)

    def learn(self, rollout: Rollout) -> None:
        """Keeps the words for its mistakes."""
        for turn in rollout.trace.turns:
            for call, result in zip(turn.tool_calls, turn.results, strict=False):
                if result.is_model_error and result.output is not None:
                    self.mistakes[call.name, call.arguments] = result.output

    def _value(self, name: str, arguments: str) -> str | None:
        try:
            given = json.loads(arguments)
        except ValueError:
            return None
        value = given.get(PARAMETERS.get(name, "")) if isinstance(given, dict) else None
        return value if isinstance(value, str) and set(given) == {PARAMETERS[name]} else None


@dataclass(frozen=True, slots=True)
class Beside:
    """One question, answered in both ways."""

    platform: Rollout
    customer: Conversed
    reward: float
    """By the customer's grader, in the customer's code."""

    @property
    def has_same_tokens(self) -> bool:
        """The trace ends before what a call's output would have been shown in, the loop's ids do as well."""
        return list(self.platform.trace.token_ids) == self.customer.token_ids

    @property
    def went_on(self) -> bool:
        """The platform ended at one call too many, which could not be read. The API never hands such a call out: the
        model was told, and went on from there. A customer cannot know of it, nor count it."""
        last = self.platform.trace.turns[-1].tool_calls
        is_cut_off = self.platform.stop_reason is StopReason.MAX_TOOL_CALLS and not any(call.name for call in last)
        own = self.platform.trace.token_ids
        return is_cut_off and list(own) == self.customer.token_ids[: len(own)] and not self.has_same_tokens

    @property
    def has_same_reward(self) -> bool:
        """To the bit: they come from the same few numbers."""
        return self.platform.reward == self.reward


def trained_job(platform: DemoPlatform, is_quick: bool) -> str:
    """The id of a job that has succeeded."""
    hyperparameters = demo.QUICK_HYPERPARAMETERS if is_quick else demo.HYPERPARAMETERS
    job_id = demo.launch(platform.client, platform.data, platform.server, JOB_SEED, hyperparameters)
    demo.watch(platform.client, job_id)
    return job_id


def own_rollouts(run_dir: Path, rows: Path, step: int) -> dict[int, Rollout]:
    """The platform's, by row."""
    done: dict[int, Rollout] = {}

    def note(rollout: Rollout, was_replaced: bool) -> None:
        assert not was_replaced
        done[rollout.key.row_index] = rollout

    evaluate(run_dir, RunSecrets(), Wanted((step,), rows=rows, on_rollout=note))
    return done


def conversed(
    client: OpenAI, model: str, items: Sequence[dict[str, Any]], tools: CustomerTools, limits: Limits
) -> list[Conversed]:
    """The customer's conversations, in the order of the questions."""

    def one(item: dict[str, Any]) -> Conversed:
        return converse(client, model, item, tools.call, limits)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, items))


def case_of(answered: Sequence[Beside]) -> dict[str, Any]:
    """One policy."""
    return {
        "questions": len(answered),
        "same_tokens": sum(each.has_same_tokens for each in answered),
        "same_until_unreadable_call": sum(each.went_on for each in answered),
        "same_reward": sum(each.has_same_reward for each in answered),
        "reward_platform": fmean(each.platform.reward or 0.0 for each in answered),
        "reward_customer": fmean(each.reward for each in answered),
        "excluded": sum(each.platform.reward is None for each in answered),
        "rendered_again": sum(each.customer.rendered_again for each in answered),
        "tokens": sum(len(each.customer.token_ids) for each in answered),
        "ended_by": {
            reason: sum(each.platform.stop_reason == reason for each in answered)
            for reason in sorted({str(each.platform.stop_reason) for each in answered})
        },
        "passed": all((each.has_same_tokens or each.went_on) and each.has_same_reward for each in answered),
    }


def gain(cases: Mapping[str, dict[str, Any]], of: str) -> float:
    """Best checkpoint against untrained policy."""
    return cases["trained"][f"reward_{of}"] - cases["untrained"][f"reward_{of}"]


def measure(out: Path, is_quick: bool) -> dict[str, Any]:
    """Both policies, one after the other."""
    with demo_platform(out, data_seed=DATA_SEED, is_quick=is_quick) as platform:
        job_id = trained_job(platform, is_quick)
        job = platform.client.fine_tuning.jobs.retrieve(job_id)
        assert job.fine_tuned_model is not None
        run_dir, rows = platform.home / "runs" / job_id, platform.data / "test.jsonl"
        budgets = read_spec(run_dir).budgets
        limits = Limits(budgets.max_turns, budgets.max_tool_calls, budgets.max_tokens)
        items = [json.loads(line) for line in rows.read_text().splitlines()]
        best = demo.best_step(demo.steps_of(platform.client, job_id))
        tools, cases = CustomerTools(), dict[str, Any]()
        for name, model, step in (("untrained", BASE, 0), ("trained", job.fine_tuned_model, best)):
            own = own_rollouts(run_dir, rows, step)
            for rollout in own.values():
                tools.learn(rollout)
            theirs = conversed(platform.client, model, items, tools, limits)
            cases[name] = case_of(
                [
                    Beside(own[at], customer, grade(customer.answer, items[at]["answer"]))
                    for at, customer in enumerate(theirs)
                ]
            )
    platform_gain, customer_gain = gain(cases, "platform"), gain(cases, "customer")
    cases["gain"] = {
        "platform": platform_gain,
        "customer": customer_gain,
        "passed": platform_gain == customer_gain,
    }
    return {"cases": cases, "limits": {"turns": limits.turns, "calls": limits.calls, "tokens": limits.tokens}}


def main() -> None:
    """Measure, write, tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few rows and steps: to see that it works")
    parser.add_argument("--out", type=Path, default=demo.ROOT / "var" / "bench" / "loop")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, demo.stop)
    options.out.mkdir(parents=True, exist_ok=True)
    report = measure(options.out, options.quick)
    text = json.dumps(report, indent=2)
    (options.out.parent / "loop.json").write_text(text + "\n")
    print(text)
    if not all(case["passed"] for case in report["cases"].values()):
        sys.exit("the customer's loop and the platform's evaluation differ")


if __name__ == "__main__":
    main()
