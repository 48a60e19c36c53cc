"""Jobs on the FinQA example through the official SDK."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openai import OpenAI

TERMINAL = ("succeeded", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class Stack:
    """Everything up: the platform with one base model per policy, and the customer's server."""

    client: OpenAI
    server_url: str
    valid: list[dict[str, Any]]
    files: dict[str, str]

    @classmethod
    def upload(cls, client: OpenAI, server_url: str, data: Path) -> "Stack":
        """With `train.jsonl` and `valid.jsonl` of a folder on the platform."""
        files = {
            name: client.files.create(file=data / f"{name}.jsonl", purpose="fine-tune").id
            for name in ("train", "valid")
        }
        return cls(client, server_url, read_rows(data / "valid.jsonl"), files)

    def evaluate(self, policy: str) -> Any:
        """Run the shortest job there is, for its baseline evaluation."""
        job = self.launch(policy, {"n_epochs": 1, "batch_size": 2, "compute_multiplier": 0.25})
        assert job.status == "succeeded", job.error
        return job

    def launch(self, model: str, hyperparameters: dict[str, Any]) -> Any:
        """Create a job and wait for its end."""
        method: Any = {
            "type": "reinforcement",
            "reinforcement": {
                "tools": [{"name": n, "server_url": f"{self.server_url}/tools"} for n in ("search", "list", "cat")],
                "grader": {"type": "endpoint", "name": "finqa", "url": f"{self.server_url}/grade"},
                "max_episode_steps": 10,
                "hyperparameters": hyperparameters,
            },
        }
        job = self.client.fine_tuning.jobs.create(
            model=model, training_file=self.files["train"], validation_file=self.files["valid"], method=method, seed=1
        )
        deadline = time.monotonic() + 1500
        while (job := self.client.fine_tuning.jobs.retrieve(job.id)).status not in TERMINAL:
            assert time.monotonic() < deadline, job.status
            time.sleep(0.3)
        return job

    def steps(self, job_id: str) -> list[dict[str, Any]]:
        """Records of all steps, oldest first."""
        page: Any = self.client.get(f"/fine_tuning/jobs/{job_id}/steps?limit=100", cast_to=object)
        return sorted((entry["record"] for entry in page["data"]), key=lambda record: record["step"])


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
