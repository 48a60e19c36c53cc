"""A step with TRL's own tool loop against a step of ours: the same model, conversation, adapter and batch.

The policy has learned one conversation per question by heart: three calls of `search`, then an answer. So both sides
sample the same turns and the same tokens, which are counted. A tool takes 100 ms. TRL calls it as a function that
sleeps, which is its fastest way: it runs the calls of different rollouts one after another, be they functions,
coroutines or HTTP. Ours is what a job runs: the trainer's process, tool and grader over HTTP. Rewards are drawn, so
that no group is without signal; the learning rate is too small to change what is said.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rft.core.events import EventLine, StepDone
from rft.core.graders import EndpointGrader
from rft.core.hyperparameters import LoraSpec, ResolvedHyperparameters
from rft.core.spec import Budgets, Engine, RunSpec, ToolServer
from rft.run_directory import layout

if TYPE_CHECKING:
    from rft.starter.encoding import Encoder

QUESTIONS, GROUP_SIZE, TOOL_S = 8, 8, 0.1
CALLS = ("revenue 2017", "revenue 2018", "revenue 2019")
OUTPUT = "reports/2019.txt: revenue 173"
ANSWER = "revenue 173"
LEARNING_RATE = 1e-7
LORA = LoraSpec(learning_rate=LEARNING_RATE)
TRL_PROGRAM = Path(__file__).with_name("peer_programs") / "trl_steps.py"
_SHARPER = 4.0
"""What logits are multiplied by in the end: what was learned is as good as certain then."""
_MOST_TEACHING_STEPS, _TEACHING_RATE, _LEARNED = 400, 2e-3, 0.01


@dataclass(frozen=True, slots=True)
class Step:
    """One optimizer step over all rollouts."""

    rollouts_s: float
    """Sampling, tools and grading."""
    whole_s: float
    """The update as well, and on our side the checkpoint and the policy's publication."""
    tool_calls: int
    sampled_tokens: int


def question(number: int) -> str:
    """The user's message of one row."""
    return f"What was the revenue of company {number}?"


def tool_call_text(query: str) -> str:
    """What the policy writes to call the tool."""
    return f'<tool_call>\n{{"name": "search", "arguments": {{"query": "{query}"}}}}\n</tool_call>'


def save_taught_policy(folder: Path) -> Path:
    """A base model of the starter's shape that says the conversation whatever the seed."""
    import torch
    from torch.nn.functional import cross_entropy

    from rft.starter.encoding import Encoder
    from rft.starter.model import build_model
    from rft.starter.tokenizer import build_tokenizer

    tokenizer = build_tokenizer()
    model, encoder = build_model(tokenizer, seed=1), Encoder(tokenizer)
    taught = [_conversation(encoder, question(number)) for number in range(QUESTIONS)]
    length = max(len(ids) for ids, _ in taught)
    ids_B_T = torch.zeros(len(taught), length, dtype=torch.long)
    is_said_B_T = torch.zeros(len(taught), length, dtype=torch.bool)
    for row, (ids, is_said) in enumerate(taught):
        ids_B_T[row, : len(ids)], is_said_B_T[row, : len(ids)] = torch.tensor(ids), torch.tensor(is_said)
    optimizer = torch.optim.AdamW(model.parameters(), lr=_TEACHING_RATE)
    for _ in range(_MOST_TEACHING_STEPS):
        optimizer.zero_grad()
        logits_B_T_V = model(input_ids=ids_B_T).logits[:, :-1]
        loss = cross_entropy(logits_B_T_V[is_said_B_T[:, 1:]], ids_B_T[:, 1:][is_said_B_T[:, 1:]])
        loss.backward()
        optimizer.step()
        if loss.item() < _LEARNED:
            break
    else:
        raise RuntimeError("the conversation was not learned")
    with torch.no_grad():
        model.model.norm.weight.mul_(_SHARPER)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _conversation(encoder: "Encoder", asked: str) -> tuple[list[int], list[bool]]:
    """Token ids, and which of them the policy says."""
    ids = list(encoder.prompt(asked))
    is_said = [False] * len(ids)
    for turn, output in [*((tool_call_text(query), OUTPUT) for query in CALLS), (ANSWER, None)]:
        said = [*encoder.encode(turn), encoder.end_id]
        suffix = encoder.suffix(output) if output else []
        ids += [*said, *suffix]
        is_said += [*[True] * len(said), *[False] * len(suffix)]
    return ids, is_said


def trl_steps(model: Path, *, steps: int, tool_s: float) -> list[Step]:
    """TRL in a process of its own; the first step is left out, it warms up."""
    order = {
        "model": str(model), "steps": steps + 1, "tool_s": tool_s, "output": OUTPUT, "group_size": GROUP_SIZE,
        "questions": [question(number) for number in range(QUESTIONS)], "learning_rate": LEARNING_RATE,
        "rank": LORA.rank, "alpha": LORA.alpha,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(TRL_PROGRAM), json.dumps(order)], stdout=subprocess.PIPE, check=True, text=True
    )
    return [Step(**step) for step in json.loads(done.stdout.splitlines()[-1])[1:]]


def our_steps(model: Path, run_dir: Path, tool_url: str, grader_url: str, *, steps: int) -> list[Step]:
    """A run as the platform starts it; the first step is left out as well."""
    run_dir.mkdir(parents=True)
    parameters = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    tool = {"type": "function", "function": {"name": "search", "parameters": parameters}}
    rows = [
        json.dumps({"messages": [{"role": "user", "content": question(number)}], "tools": [tool]})
        for number in range(QUESTIONS)
    ]
    (run_dir / layout.TRAIN_ROWS).write_text("\n".join(rows))
    (run_dir / layout.SPEC).write_text(_spec(model, tool_url, grader_url, steps + 1).model_dump_json())
    with (run_dir / layout.LOG).open("wb") as log:
        subprocess.run(
            [sys.executable, "-m", "rft.trainer", str(run_dir)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            check=True,
        )  # fmt: skip
    lines = (run_dir / layout.EVENTS).read_bytes().splitlines()
    told = [EventLine.model_validate_json(line).event for line in lines]
    return [_step(event) for event in told if isinstance(event, StepDone)][2:]


def _spec(model: Path, tool_url: str, grader_url: str, steps: int) -> RunSpec:
    return RunSpec(
        job_id="ftjob-peers",
        seed=1,
        base_model=str(model),
        model_name="taught",
        hyperparameters=ResolvedHyperparameters(
            n_epochs=steps, batch_size=QUESTIONS, learning_rate_multiplier=1.0, compute_multiplier=1.0,
            eval_interval=steps, eval_samples=1, group_size=GROUP_SIZE, steps=steps,
        ),
        tools=(ToolServer(name="search", server_url=tool_url),),
        grader=EndpointGrader(name="drawn", url=grader_url),
        budgets=Budgets(max_tool_calls=10, max_tokens=512),
        lora=LORA,
        engine=Engine.TRANSFORMERS,
    )  # fmt: skip


def _step(done: StepDone) -> Step:
    timing, train = done.timing, done.train
    if train is None:
        return Step(0.0, 0.0, 0, 0)
    return Step(
        rollouts_s=timing.sampling_s + timing.tools_s + timing.grading_s,
        whole_s=timing.full_step_s,
        tool_calls=sum(tool.calls for tool in train.tools),
        sampled_tokens=train.completion_tokens_total,
    )
