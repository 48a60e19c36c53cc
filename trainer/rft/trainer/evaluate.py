"""`python -m rft.trainer.evaluate RUN_DIR`: one more evaluation of a kept checkpoint, e.g. greedy, as JSON on stdout.

Reads the run directory and writes nothing into it. Secrets come as JSON on standard input, as for a run.
"""

import argparse
import sys
from pathlib import Path

from rft.trainer.lean_imports import prepare_imports

if __name__ == "__main__":
    prepare_imports()

from rft.core import run_layout
from rft.core.events import RolloutStats
from rft.core.spec import RunSecrets
from rft.rollouts.executor import run_evaluation
from rft.rollouts.hermes import HermesChatFormat
from rft.rollouts.stats import rollout_stats
from rft.trainer.background import Background
from rft.trainer.data import with_job_tools
from rft.trainer.engines.choose import open_engine
from rft.trainer.fitting import split_by_fit
from rft.trainer.run import read_spec, valid_rows
from rft.trainer.tokenizer import ChatTokenizer, load_tokenizer, stop_ids
from rft.trainer.wiring import open_outside, rollout_setup


def evaluate(run_dir: Path, secrets: RunSecrets, *, step: int, temperature: float) -> RolloutStats:
    """The checkpoint's statistics over the validation rows, one rollout each. Raises what loading raises."""
    spec = read_spec(run_dir)
    tokenizer = load_tokenizer(spec.base_model)
    chat_format = HermesChatFormat(ChatTokenizer(tokenizer, stop_ids(spec.base_model, tokenizer)))
    engine = open_engine(spec, chat_format)
    rows, _ = split_by_fit(
        with_job_tools(valid_rows(run_dir), spec.tools), chat_format, max_context_tokens=engine.max_context_tokens
    )
    background = Background()
    try:
        outside = background.call(open_outside(spec, secrets))
        try:
            background.call(engine.publish(step, run_dir / run_layout.checkpoint_dir(step)))
            setup = rollout_setup(spec.model_copy(update={"temperature": temperature}), outside, engine, chat_format)
            done = background.call(
                run_evaluation(
                    rows,
                    setup=setup,
                    job_id=spec.job_id,
                    job_seed=spec.seed,
                    step=step,
                    samples=1,
                    on_rollout=lambda rollout, was_replaced: None,
                )
            )
        finally:
            background.finish(outside.aclose(), engine.close())
    finally:
        background.close()
    return rollout_stats(done.groups)


def main() -> None:
    """Print the statistics."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--step", type=int, required=True)
    parser.add_argument("--temperature", type=float, default=0.0)
    args = parser.parse_args()
    text = sys.stdin.read()
    secrets = RunSecrets.model_validate_json(text) if text.strip() else RunSecrets()
    stats = evaluate(args.run_dir, secrets, step=args.step, temperature=args.temperature)
    sys.stdout.write(stats.model_dump_json() + "\n")


if __name__ == "__main__":
    main()
