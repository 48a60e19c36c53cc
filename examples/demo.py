"""The whole product on one machine: platform, customer's server, dataset, job, learning, before and after.

make demo              make demo SEED=2              make demo FAULTS=0.1
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from openai import OpenAI
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
MINI = ROOT / "examples" / "finqa_mini"
BIN = Path(sys.executable).parent
TERMINAL = ("succeeded", "failed", "cancelled")
console = Console()


@contextmanager
def running(
    command: list[str | Path], log: Path, env: dict[str, str] | None = None
) -> Generator[subprocess.Popen[bytes]]:
    """A child process, interrupted as Ctrl-C would and waited for at the end."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        child = subprocess.Popen(
            command, stdout=output, stderr=output, env=os.environ | (env or {}), start_new_session=True
        )
        try:
            yield child
        finally:
            child.send_signal(signal.SIGINT)
            try:
                child.wait(60)
            except subprocess.TimeoutExpired:
                child.kill()


def wait_for_file(path: Path, child: subprocess.Popen[bytes], log: Path, timeout_s: float = 120) -> str:
    """The file's text once the child has written it; stops with the child's last words when it dies first."""
    deadline = time.monotonic() + timeout_s
    while not (path.exists() and path.read_text()):
        if child.poll() is not None or time.monotonic() > deadline:
            console.print(log.read_text(errors="replace")[-3000:])
            raise SystemExit(f"{log.name}: did not start; its log is {log}")
        time.sleep(0.05)
    return path.read_text()


def platform_environment(home: Path, faults: float) -> dict[str, str]:
    """A laptop's settings: with broken endpoints on purpose, calls are given up after seconds, not minutes."""
    env = {"RFT_HOME": str(home), "RFT_PORT": "0", "RFT_RETRY_FIRST_WAIT_S": "0.05", "RFT_TORCH_THREADS": "1"}
    if faults:
        env |= {"RFT_TOOL_TIMEOUT_S": "3", "RFT_GRADER_TIMEOUT_S": "3", "RFT_RETRY_TOTAL_S": "4"}
    return env


def launch(client: OpenAI, data: Path, server: str, seed: int) -> str:
    """Upload both files and create the job: nothing here but the official SDK."""
    files = {
        name: client.files.create(file=data / f"{name}.jsonl", purpose="fine-tune").id for name in ("train", "valid")
    }
    method: Any = {
        "type": "reinforcement",
        "reinforcement": {
            "tools": [{"name": name, "server_url": f"{server}/tools"} for name in ("search", "list", "cat")],
            "grader": {"type": "endpoint", "name": "partial_credit", "url": f"{server}/grade"},
            "max_episode_steps": 10,
            "budgets": {"max_tokens": 320},
            "hyperparameters": {"n_epochs": 2, "batch_size": 16, "eval_interval": 10},
        },
    }
    job = client.fine_tuning.jobs.create(
        model="starter",
        training_file=files["train"],
        validation_file=files["valid"],
        method=method,
        seed=seed,
        suffix="demo",
    )
    return job.id


def cancel_leftovers(client: OpenAI) -> None:
    """A demo that was interrupted leaves a job whose tool server is gone: it would wait for it in the only slot."""
    for job in client.fine_tuning.jobs.list():
        if job.status not in ("succeeded", "failed", "cancelled"):
            client.fine_tuning.jobs.cancel(job.id)


def steps_of(client: OpenAI, job_id: str) -> list[dict[str, Any]]:
    """Every finished step's record, oldest first."""
    page: Any = client.get(f"/fine_tuning/jobs/{job_id}/steps?limit=1000", cast_to=object)
    return sorted((entry["record"] for entry in page["data"]), key=lambda record: record["step"])


def number(value: float | None) -> str:
    """A figure for the progress bar; a dash where there is none."""
    return "-" if value is None else f"{value:.2f}"


def watch(client: OpenAI, job_id: str) -> float:
    """Progress bar with reward per step until the job has ended; returns seconds spent running."""
    started_at = None
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[reward]}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        bar, seen = progress.add_task("waiting", total=None, reward=""), -1
        while (job := client.fine_tuning.jobs.retrieve(job_id)).status not in TERMINAL:
            if job.status == "running" and started_at is None:
                started_at = time.monotonic()
            for record in steps_of(client, job_id):
                if record["step"] <= seen:
                    continue
                seen = record["step"]
                train, valid = ((record[s] or {}).get("reward_mean") for s in ("train", "valid"))
                reward = f"train {number(train)}" + (f"  valid [bold]{number(valid)}[/]" if valid is not None else "")
                progress.update(bar, total=record["total_steps"], completed=seen, reward=reward)
                if valid is not None:
                    console.print(f"step {seen:3d}/{record['total_steps']}  {reward}")
            progress.update(bar, description=job.status)
            time.sleep(0.5)
        progress.update(bar, description=job.status)
    if job.status != "succeeded":
        raise SystemExit(f"job {job.status}: {job.error.message if job.error else 'no error given'}")
    return time.monotonic() - (started_at or time.monotonic())


def summary(valid: dict[str, Any]) -> dict[str, float]:
    """The four figures of one evaluation."""
    return {
        "valid_reward": valid["reward_mean"],
        "tool_calls_per_rollout": valid["tool_calls_mean"],
        "completion_tokens_mean": valid["completion_tokens_mean"],
        "rollout_latency_p50_s": valid["rollout_latency_p50_s"],
    }


def make_report(steps: list[dict[str, Any]], **extra: float) -> dict[str, Any]:
    """`baseline` is step 0; `final` is the best checkpoint."""
    evaluated = [record for record in steps if record["valid"] is not None]
    best = max(evaluated, key=lambda record: (record["valid"]["reward_mean"], record["step"]))
    stats = [split for record in steps for split in (record["train"], record["valid"]) if split is not None]
    return {
        "baseline": summary(evaluated[0]["valid"]),
        "final": summary(best["valid"]),
        "best_step": best["step"],
        "steps": steps[-1]["step"],
        "rollouts": sum(split["rollouts"] for split in stats),
        "excluded_rollouts": sum(split["excluded"] for split in stats),
        "excluded_by_code": {
            code: sum(split["failures_by_code"].get(code, 0) for split in stats)
            for code in sorted({code for split in stats for code in split["failures_by_code"]})
        },
        **extra,
    }


def greedy_reward(run_dir: Path, step: int) -> float:
    """Validation reward of a checkpoint that always takes its likeliest token."""
    command = [BIN / "python", "-m", "rft.trainer.evaluate", run_dir, "--step", str(step), "--temperature", "0"]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
    )
    return json.loads(done.stdout)["reward_mean"]


def show(report: dict[str, Any]) -> None:
    """The before/after table."""
    table = Table(title="before and after, on companies the policy has never seen")
    for column in ("", "baseline", f"best checkpoint (step {report['best_step']})"):
        table.add_column(column, justify="left" if not column else "right")
    names = {
        "valid_reward": "validation reward",
        "tool_calls_per_rollout": "tool calls per rollout",
        "completion_tokens_mean": "completion tokens",
        "rollout_latency_p50_s": "rollout latency p50 (s)",
    }
    for key, name in names.items():
        table.add_row(name, *(f"{report[when][key]:.3g}" for when in ("baseline", "final")))
    console.print(table)
    codes = ", ".join(f"{count} {code}" for code, count in report["excluded_by_code"].items()) or "none"
    console.print(f"rollouts {report['rollouts']}, excluded {report['excluded_rollouts']} ({codes})")
    console.print(f"training {report['seconds_training']:.0f} s, everything {report['seconds_total']:.0f} s")


def stop(signum: int, frame: FrameType | None) -> None:
    """Leave through every `finally`, so that the children are stopped too."""
    del frame
    sys.exit(128 + signum)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=float, default=0.0, help="share of rollouts whose endpoint breaks for good")
    parser.add_argument("--out", type=Path, default=ROOT / "var" / "demo")
    parser.add_argument("--greedy", action="store_true", help="also evaluate the best checkpoint at temperature 0")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    began = time.monotonic()
    work = args.out / "work"
    shutil.rmtree(work, ignore_errors=True)
    home = args.out / "home"
    with ExitStack() as stack:
        port_file, connection_file = work / "server.port", home / "connection.json"
        connection_file.unlink(missing_ok=True)
        console.print("starting the platform and the customer's tool server")
        platform = stack.enter_context(
            running([BIN / "rft", "up"], work / "platform.log", platform_environment(home, args.faults))
        )
        server_command = [BIN / "python", MINI / "server.py", "--port", "0", "--port-file", port_file]
        server = stack.enter_context(running([*server_command, "--faults", str(args.faults)], work / "server.log"))
        if not (home / "starter" / "config.json").exists():
            console.print("building the starter policy (about a minute)")
            subprocess.run([BIN / "python", "-m", "rft.trainer.starter", home / "starter"], check=True)
        subprocess.run(
            [BIN / "python", MINI / "generate.py", "--out", work / "data", "--seed", str(args.seed)], check=True
        )
        server_url = f"http://127.0.0.1:{wait_for_file(port_file, server, work / 'server.log').strip()}"
        connection = json.loads(wait_for_file(connection_file, platform, work / "platform.log"))
        console.print(f"dashboard: [link]{connection['dashboard_url']}[/link]")
        client = OpenAI(base_url=connection["base_url"], api_key=connection["api_key"])
        cancel_leftovers(client)
        job_id = launch(client, work / "data", server_url, args.seed)
        console.print(f"job {job_id}")
        seconds_training = watch(client, job_id)
        report = make_report(
            steps_of(client, job_id),
            seconds_training=round(seconds_training, 1),
            seconds_total=round(time.monotonic() - began, 1),
            seed=args.seed,
            faults=args.faults,
        )
        if args.greedy:
            report["greedy_reward"] = greedy_reward(home / "runs" / job_id, report["best_step"])
    show(report)
    (args.out / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    console.print(f"written: {args.out / 'report.json'}")


if __name__ == "__main__":
    main()
