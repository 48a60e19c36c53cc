"""The whole product on one machine: platform, customer's server, dataset, job, learning, and what came of it.

The figure at the end is of rows that neither trained the policy nor chose its checkpoint, with fresh seeds, beside the
untrained policy on the same rows at the same temperatures.

make demo              make demo SEED=2              make demo FAULTS=0.1              make demo ENGINE=vllm
"""

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from demo_report import TEMPERATURES, best_step, make_report, sentences, table
from openai import OpenAI
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

ROOT = Path(__file__).resolve().parent.parent
MINI = ROOT / "examples" / "finqa_mini"
BIN = Path(sys.executable).parent
TERMINAL = ("succeeded", "failed", "cancelled")
HYPERPARAMETERS = {"n_epochs": 2, "batch_size": 16, "eval_interval": 10}
QUICK_ROWS, QUICK_HYPERPARAMETERS = 8, {"n_epochs": 1, "batch_size": 4, "compute_multiplier": 0.25}
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


def wait_for_file(
    path: Path,
    child: subprocess.Popen[bytes],
    log: Path,
    is_written: Callable[[str], bool] = bool,
    timeout_s: float = 120,
) -> str:
    """The file's text once the child has written it; stops with the child's last words when it dies first."""
    deadline = time.monotonic() + timeout_s
    while not (path.exists() and is_written(path.read_text())):
        if child.poll() is not None or time.monotonic() > deadline:
            console.print(log.read_text(errors="replace")[-3000:])
            raise SystemExit(f"{log.name}: did not start; its log is {log}")
        time.sleep(0.05)
    return path.read_text()


def wait_for_platform(connection_file: Path, platform: subprocess.Popen[bytes], log: Path) -> dict[str, Any]:
    """Where the platform is. A record that is there before it is of another one, which may run in this home."""

    def is_its_own(record: str) -> bool:
        return json.loads(record)["pid"] == platform.pid

    return json.loads(wait_for_file(connection_file, platform, log, is_its_own))


def platform_environment(home: Path, faults: float, engine: str) -> dict[str, str]:
    """A laptop's settings: with broken endpoints on purpose, calls are given up after seconds, not minutes."""
    threads = os.environ.get("RFT_TORCH_THREADS", "1")  # The platform and the customer's server live here, too.
    env = {"RFT_HOME": str(home), "RFT_PORT": "0", "RFT_RETRY_FIRST_WAIT_S": "0.05", "RFT_TORCH_THREADS": threads}
    env |= {"RFT_ENGINE": engine}
    if faults:
        env |= {"RFT_TOOL_TIMEOUT_S": "3", "RFT_GRADER_TIMEOUT_S": "3", "RFT_RETRY_TOTAL_S": "4"}
    return env


def launch(client: OpenAI, data: Path, server: str, seed: int, hyperparameters: dict[str, Any]) -> str:
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
            "hyperparameters": hyperparameters,
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


def evaluated(run_dir: Path, rows: Path, best: int) -> list[dict[str, Any]]:
    """The untrained policy and the best checkpoint on rows that have chosen nothing, at every temperature."""
    command = [
        BIN / "python",
        "-m",
        "rft.trainer.evaluate",
        run_dir,
        "--rows",
        rows,
        "--step",
        "0",
        "--step",
        str(best),
    ]
    for temperature in TEMPERATURES:
        command += ["--temperature", str(temperature)]
    with (run_dir / "evaluate.log").open("wb") as log:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def again(home: Path) -> str:
    """How to see the run after the demo has ended, as a line for the shell."""
    return f"RFT_HOME={shlex.quote(str(home.resolve()))} {shlex.quote(str(BIN / 'rft'))} up"


def stop(signum: int, frame: FrameType | None) -> None:
    """Leave through every `finally`, so that the children are stopped too."""
    del frame
    sys.exit(128 + signum)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=float, default=0.0, help="share of rollouts whose endpoint breaks for good")
    parser.add_argument("--engine", default="transformers", help="what samples: transformers, or vllm")
    parser.add_argument("--quick", action="store_true", help="a few rows and steps: to see that everything works")
    parser.add_argument("--out", type=Path, default=ROOT / "var" / "demo")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    began = time.monotonic()
    work = args.out / "work"
    home = args.out / "home"
    with ExitStack() as stack:
        port_file, connection_file = work / "server.port", home / "connection.json"
        console.print("starting the platform and the customer's tool server")
        log = args.out / f"platform-{os.getpid()}.log"
        platform = stack.enter_context(
            running([BIN / "rft", "up"], log, platform_environment(home, args.faults, args.engine))
        )
        connection = wait_for_platform(connection_file, platform, log)
        # Now the home is ours: until here another demo may have been at work in this folder.
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        log.replace(work / "platform.log")
        server_command = [BIN / "python", MINI / "server.py", "--port", "0", "--port-file", port_file]
        server = stack.enter_context(running([*server_command, "--faults", str(args.faults)], work / "server.log"))
        if not (home / "starter" / "config.json").exists():
            console.print("building the starter policy (about a minute)")
            subprocess.run([BIN / "python", "-m", "rft.starter", home / "starter"], check=True)
        generate = [BIN / "python", MINI / "generate.py", "--out", work / "data", "--seed", str(args.seed)]
        subprocess.run([*generate, *(["--rows", str(QUICK_ROWS)] if args.quick else [])], check=True)
        server_url = f"http://127.0.0.1:{wait_for_file(port_file, server, work / 'server.log').strip()}"
        print(f"dashboard: {connection['dashboard_url']}", flush=True)  # rich would break it at the terminal's width.
        client = OpenAI(base_url=connection["base_url"], api_key=connection["api_key"])
        cancel_leftovers(client)
        hyperparameters = QUICK_HYPERPARAMETERS if args.quick else HYPERPARAMETERS
        job_id = launch(client, work / "data", server_url, args.seed, hyperparameters)
        console.print(f"job {job_id}")
        seconds_training = watch(client, job_id)
        steps = steps_of(client, job_id)
        console.print("evaluating it on test questions")
        trained_at = time.monotonic()
        evaluations = evaluated(home / "runs" / job_id, work / "data" / "test.jsonl", best_step(steps))
        ended_at = time.monotonic()
    report = make_report(
        steps,
        evaluations,
        seconds_training=round(seconds_training, 1),
        seconds_evaluation=round(ended_at - trained_at, 1),
        seconds_total=round(ended_at - began, 1),
        seed=args.seed,
        faults=args.faults,
    )
    console.print(table(report))
    (args.out / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    for line in (*sentences(report), f"report: {args.out / 'report.json'}", f"see the run again: {again(home)}"):
        print(line)


if __name__ == "__main__":
    main()
