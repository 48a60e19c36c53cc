"""Launch a training job and watch it, with nothing but the official `openai` SDK.

export OPENAI_BASE_URL=http://127.0.0.1:8787/v1 OPENAI_API_KEY=...
python examples/finqa_mini/job.py --server http://127.0.0.1:8080 --data var/finqa_mini

Interrupted, the job goes on; `--job ID` goes on watching it.
"""

import argparse
import sys
import time
import uuid
from pathlib import Path

from openai import APIConnectionError, InternalServerError, OpenAI
from openai.types.fine_tuning import FineTuningJob, FineTuningJobEvent

TOOLS = ("search", "list", "cat")
MAX_TOOL_CALLS = 10
MAX_TOKENS = 320
"""All that a rollout may sample; a policy that does not stop would otherwise keep the others of its step waiting."""
FINAL = ("succeeded", "failed", "cancelled")


def upload(client: OpenAI, path: Path) -> str:
    """Id of the uploaded file, ready to be used."""
    uploaded = client.files.create(file=path, purpose="fine-tune")
    return client.files.wait_for_processing(uploaded.id, poll_interval=0.2).id


def create(client: OpenAI, options: argparse.Namespace) -> FineTuningJob:
    """The job: where the tools are, where the grader is, and what to train on."""
    deadline = {} if options.timeout is None else {"timeout_s": options.timeout}
    method = {
        "type": "reinforcement",
        "reinforcement": {
            "grader": {"type": "endpoint", "name": "exact-number", "url": f"{options.server}/grade", **deadline},
            "tools": [{"name": name, "server_url": f"{options.server}/tools/{name}", **deadline} for name in TOOLS],
            "max_episode_steps": MAX_TOOL_CALLS,
            "budgets": {"max_tokens": MAX_TOKENS},
            "hyperparameters": {
                "n_epochs": options.epochs or "auto",
                "batch_size": options.batch_size or "auto",
                "compute_multiplier": options.compute_multiplier,
                "eval_interval": options.eval_interval or "auto",
            },
        },
    }
    return client.fine_tuning.jobs.create(
        model=options.model,
        training_file=upload(client, options.data / "train.jsonl"),
        validation_file=upload(client, options.data / "valid.jsonl"),
        seed=options.seed,
        suffix="finqa-mini",
        # The SDK sends an order again whose answer got lost: the key makes that one job, not two.
        extra_headers={"Idempotency-Key": str(uuid.uuid4())},
        method=method,  # pyright: ignore[reportArgumentType]  # The SDK does not know `endpoint` and `tools`; it sends them.
    )


def ordered(client: OpenAI, options: argparse.Namespace) -> str:
    """Id of a new job."""
    options.server = options.server.rstrip("/")
    job = create(client, options)
    print(f"{job.id}: {job.status}", flush=True)
    return job.id


def new_events(client: OpenAI, job_id: str, seen: set[str]) -> list[FineTuningJobEvent]:
    """Events not seen before, oldest first. The list is newest first, so it is read until a known one."""
    fresh: list[FineTuningJobEvent] = []
    for event in client.fine_tuning.jobs.list_events(job_id, limit=50):
        if event.id in seen:
            break
        fresh.append(event)
    seen.update(event.id for event in fresh)
    return fresh[::-1]


def follow(client: OpenAI, job_id: str, interval_s: float) -> FineTuningJob:
    """Print the reward of each step, and every message, until the job has ended, also across a platform's restart."""
    seen: set[str] = set()
    while True:
        try:
            job = client.fine_tuning.jobs.retrieve(job_id)
            for event in new_events(client, job_id, seen):
                print(event.message, flush=True)
            if job.status in FINAL:
                return job
        except (APIConnectionError, InternalServerError) as problem:
            print(f"the platform does not answer ({problem}): asked again", file=sys.stderr, flush=True)
        time.sleep(interval_s)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", metavar="ID", help="orders nothing, goes on watching this job")
    parser.add_argument("--server", help="base URL of examples/finqa_mini/server.py")
    parser.add_argument("--data", type=Path, default=Path("."), help="directory with train.jsonl and valid.jsonl")
    parser.add_argument("--model", default="starter", help="any but starter: see generate.py --instruct")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--compute-multiplier", type=float, default=1.0, help="1 means 8 rollouts per row")
    parser.add_argument("--eval-interval", type=int)
    parser.add_argument("--timeout", type=float, help="seconds that one call may take; the platform's own otherwise")
    parser.add_argument("--poll", type=float, default=1.0, help="seconds between two looks at the job")
    options = parser.parse_args()
    if not (options.job or options.server):
        parser.error("--server is needed to order a job, or --job to watch one")
    client = OpenAI()
    job_id = options.job or ordered(client, options)
    job = follow(client, job_id, options.poll)
    if job.status != "succeeded":
        sys.exit(f"{job.id}: {job.status}{f': {job.error.message}' if job.error else ''}")
    print(f"{job.id}: succeeded, model {job.fine_tuned_model}")


if __name__ == "__main__":
    main()
