"""`python -m rft.trainer.evaluate RUN_DIR --step N`: checkpoints evaluated once more, as one line of JSON each.

Any rows of the same tools will do (`--rows`), at any temperature, with seeds that no training step and no evaluation of
the run has used. Step 0 is the untrained policy. Reads the run directory and writes nothing into it. Secrets come as
JSON on standard input, as for a run.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rft.engines.import_env import prepare_imports

if __name__ == "__main__":
    prepare_imports()

from rft.chat.chat_format import ChatFormat
from rft.chat.template_format import TemplateChatFormat
from rft.core.base import Record
from rft.core.dataset import DatasetRow
from rft.core.errors import RftError
from rft.core.estimates import RewardEstimate
from rft.core.ids import seed_63
from rft.core.secret_urls import put_secret_urls
from rft.core.spec import RunSecrets, RunSpec
from rft.core.step_record import RolloutStats
from rft.engines.base import Engine
from rft.engines.choose import open_engine
from rft.engines.tokenizer import load_tokenizer
from rft.rollouts.connections import CustomerConnections, open_connections
from rft.rollouts.executor import run_evaluation
from rft.rollouts.gather_or_cancel import gather_or_cancel
from rft.rollouts.group import with_job_tools
from rft.rollouts.round_state import OnRollout
from rft.rollouts.stats import rollout_stats
from rft.rollouts.wiring import rollout_setup
from rft.run_directory import layout
from rft.run_directory.files import read_spec
from rft.scratch.folder import ScratchFolder
from rft.trainer.checkpoints import newest_checkpoint
from rft.trainer.data import read_rows
from rft.trainer.fitting import split_by_fit
from rft.trainer.given_secrets import read_secrets
from rft.trainer.loop_thread import LoopThread
from rft.trainer.run import valid_rows
from rft.trainer.run_chat import open_run_chat


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to evaluate: every step at every temperature."""

    steps: tuple[int, ...]
    temperatures: tuple[float, ...] = (0.0,)
    samples: int = 1
    """Rollouts per row; at temperature 0, where all would be the same, one."""
    seed: int = 0
    """Another seed, other samples."""
    rows: Path | None = None
    """None: the validation rows of the run."""
    on_rollout: OnRollout = lambda _rollout, _was_replaced: None
    """Told of each rollout as it ends."""


class Evaluation(Record):
    """One step at one temperature."""

    step: int
    temperature: float
    seed: int
    samples: int
    reward: RewardEstimate | None
    """With a 95 % interval; None where there is no estimate: see `estimate_reward`."""
    stats: RolloutStats


def evaluate(run_dir: Path, secrets: RunSecrets, wanted: Wanted) -> list[Evaluation]:
    """By step, then in the order of the temperatures. Raises what loading raises, RftError for a step that is gone."""
    spec = read_spec(run_dir)
    tools, grader = put_secret_urls(spec.tools, spec.grader, secrets)
    spec = spec.model_copy(update={"tools": tools, "grader": grader})
    for step in wanted.steps:
        if step and not (run_dir / layout.checkpoint_dir(step) / layout.COMPLETE).exists():
            raise RftError(f"{run_dir} keeps no checkpoint of step {step}")
    tokenizer = load_tokenizer(spec.base_model)
    run_chat = open_run_chat(spec, tokenizer, newest_checkpoint(run_dir))
    spec, chat_format = run_chat.with_thought_limit(spec), run_chat.chat_format
    scratch = ScratchFolder("rft-evaluation-", parent=run_dir.parent)
    try:
        return _evaluated(run_dir, spec, secrets, wanted, chat_format, scratch.path)
    finally:
        scratch.remove()


def _evaluated(
    run_dir: Path, spec: RunSpec, secrets: RunSecrets, wanted: Wanted, chat_format: TemplateChatFormat, scratch: Path
) -> list[Evaluation]:
    # The run may be under way: at vLLM servers, whoever has its name unloads what its trainer has loaded, and gateway
    # services tell the ends of its open rollouts.
    own = spec.model_copy(update={"job_id": scratch.name})
    engine = open_engine(own, secrets, chat_format, scratch)
    all_rows = valid_rows(run_dir) if wanted.rows is None else read_rows(wanted.rows, param="rows")
    fit = split_by_fit(with_job_tools(all_rows, spec.tools), chat_format, max_context_tokens=engine.max_context_tokens)
    loop_thread = LoopThread()
    try:
        connections = loop_thread.call(open_connections(own, secrets))
        try:
            done: list[Evaluation] = []
            for step in sorted(set(wanted.steps)):
                if step:  # An untrained adapter changes nothing, so that step 0 is the base model as it was loaded.
                    loop_thread.call(engine.publish(step, run_dir / layout.checkpoint_dir(step)))
                done += loop_thread.call(
                    _at_every_temperature(fit.fitting, spec, connections, engine, chat_format, step, wanted)
                )
            return done
        finally:
            loop_thread.finish(connections.aclose(), engine.close())
    finally:
        loop_thread.close()


async def _at_every_temperature(
    rows: Sequence[DatasetRow],
    spec: RunSpec,
    connections: CustomerConnections,
    engine: Engine,
    chat_format: ChatFormat,
    step: int,
    wanted: Wanted,
) -> list[Evaluation]:
    """All at once: a fuller batch costs less, and a slow endpoint is waited for once."""

    async def at(temperature: float) -> Evaluation:
        samples = wanted.samples if temperature else 1
        done = await run_evaluation(
            rows,
            setup=rollout_setup(spec.model_copy(update={"temperature": temperature}), connections, engine, chat_format),
            job_id=spec.job_id,
            job_seed=seed_63("evaluation", spec.seed, wanted.seed),
            step=step,
            samples=samples,
            on_rollout=wanted.on_rollout,
        )
        stats = rollout_stats(done.groups)
        return Evaluation(
            step=step,
            temperature=temperature,
            seed=wanted.seed,
            samples=samples,
            reward=stats.reward_estimate,
            stats=stats,
        )

    return await gather_or_cancel(at(temperature) for temperature in wanted.temperatures)


def main() -> None:
    """Print the evaluations."""
    parser = argparse.ArgumentParser(prog="python -m rft.trainer.evaluate", description=__doc__)
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--step", type=int, action="append", required=True, help="0 for the untrained policy; again")
    parser.add_argument("--temperature", type=float, action="append", help="0, greedy, where none is given; again")
    parser.add_argument("--samples", type=int, default=1, help="rollouts per row")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other samples")
    parser.add_argument("--rows", type=Path, help="JSONL file; the validation rows of the run where none is given")
    args = parser.parse_args()
    secrets = read_secrets()
    wanted = Wanted(tuple(args.step), tuple(args.temperature or [0.0]), args.samples, args.seed, args.rows)
    try:
        done = evaluate(args.run_dir, secrets, wanted)
    except RftError as error:
        sys.exit(str(error))
    for evaluation in done:
        sys.stdout.write(evaluation.model_dump_json() + "\n")


if __name__ == "__main__":
    main()
