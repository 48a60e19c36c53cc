"""GRPO steps with TRL's own tool loop; told on the last line of standard output.

The only argument is the order, a JSON object: see `tests.bench.peer_steps`.
"""

# pyright: basic

import json
import os
import random
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from datasets import Dataset
from peft import LoraConfig
from transformers import AutoTokenizer, TrainerCallback
from trl.chat_template_utils import qwen3_template
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

ORDER = json.loads(sys.argv[1])
LAYERS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
CALLS = 0


def search(query: str) -> str:
    """Searches the reports.

    Args:
        query: What to look for.
    """
    global CALLS
    CALLS += 1
    time.sleep(ORDER["tool_s"])
    return ORDER["output"]


def drawn(completions: list, **columns: object) -> list[float | None]:
    """A reward that no group shares."""
    return [random.random() for _ in completions]


class Timed(GRPOTrainer):
    """Keeps what each step took. The rollouts are `_generate` with the tool loop in it, and the rewards."""

    rollouts_s = 0.0
    sampled_tokens = 0

    def _generate(self, prompts: list):
        began_s = time.perf_counter()
        generated = super()._generate(prompts)
        self.rollouts_s += time.perf_counter() - began_s
        self.sampled_tokens += sum(map(sum, generated[2] or []))
        return generated

    def _calculate_rewards(self, *arguments, **named):
        began_s = time.perf_counter()
        rewards = super()._calculate_rewards(*arguments, **named)
        self.rollouts_s += time.perf_counter() - began_s
        return rewards


class Steps(TrainerCallback):
    """Notes each step from its beginning to its end, generation included."""

    trainer: Timed

    def __init__(self) -> None:
        self.done = []
        self.began_s = 0.0

    def on_step_begin(self, args, state, control, **_):
        global CALLS
        CALLS, self.trainer.rollouts_s, self.trainer.sampled_tokens = 0, 0.0, 0
        self.began_s = time.perf_counter()

    def on_step_end(self, args, state, control, **_):
        self.done.append(
            {
                "whole_s": time.perf_counter() - self.began_s,
                "rollouts_s": self.trainer.rollouts_s,
                "tool_calls": CALLS,
                "sampled_tokens": self.trainer.sampled_tokens,
            }
        )


def main() -> None:
    """Train, and tell the steps."""
    tokenizer = AutoTokenizer.from_pretrained(ORDER["model"])
    tokenizer.response_template = qwen3_template  # The starter's template has the same form of calls.
    rows = [{"prompt": [{"role": "user", "content": asked}]} for asked in ORDER["questions"]]
    steps, rollouts = Steps(), len(rows) * ORDER["group_size"]
    with TemporaryDirectory() as folder:
        settings = GRPOConfig(
            output_dir=str(Path(folder)), max_steps=ORDER["steps"], learning_rate=ORDER["learning_rate"],
            per_device_train_batch_size=rollouts, num_generations=ORDER["group_size"], max_completion_length=512,
            temperature=1.0, use_cpu=True, bf16=False, gradient_checkpointing=False, report_to="none",
            save_strategy="no", logging_strategy="no", disable_tqdm=True, seed=1,
        )  # fmt: skip
        steps.trainer = Timed(
            ORDER["model"], reward_funcs=drawn, args=settings, train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer, tools=[search], callbacks=[steps],
            peft_config=LoraConfig(
                r=ORDER["rank"], lora_alpha=ORDER["alpha"], target_modules=LAYERS, task_type="CAUSAL_LM"
            ),
        )  # fmt: skip
        steps.trainer.train()
    print(json.dumps(steps.done))


if __name__ == "__main__":
    main()
