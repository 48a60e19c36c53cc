"""The trace is an append-only buffer, whatever the policy and the tools write."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from rft.chat.hermes import HermesChatFormat
from rft.core.dataset import DatasetRow, parse_row
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.messages import ToolCall
from rft.core.rollout import RolloutKey, Split, StopReason
from rft.core.spec import Budgets
from rft.rollouts.loop import run_rollout
from rft.rollouts.sampler import Sample, SampleRequest
from rft.rollouts.setup import RolloutSetup
from rft.testing.samplers import ScriptedSampler, tool_call_text
from rft.testing.samplers_gateways import FunctionGrader, FunctionTools
from rft.testing.samplers_time import run_in_virtual_time, virtual_clock
from rft.testing.samplers_tokenizer import SPECIALS, ByteTokenizer

TOKENIZER = ByteTokenizer()
CHAT_FORMAT = HermesChatFormat(TOKENIZER)
KEY = RolloutKey(job_id="ftjob-1", job_seed=1, split=Split.TRAIN, step=1, epoch=0, row_index=0, index=0)

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
calls = st.one_of(
    st.integers(-9, 9).map(lambda value: tool_call_text("search", f'{{"q": {value}}}')),
    st.just("<tool_call>{broken</tool_call>"),
)
tool_turns = st.tuples(texts, st.lists(calls, min_size=1, max_size=3)).map(lambda turn: turn[0] + "".join(turn[1]))
outputs = st.lists(st.one_of(texts, st.sampled_from(SPECIALS)), max_size=4).map("".join)


class Recorder(ScriptedSampler):
    """Keeps what went in and what came out."""

    def __init__(self, turns: list[str], max_context_tokens: int) -> None:
        super().__init__(
            TOKENIZER,
            lambda _, __: turns[min(len(self.seen), len(turns) - 1)],
            max_context_tokens=max_context_tokens,
        )
        self.seen: list[tuple[SampleRequest, Sample]] = []

    async def sample(self, request: SampleRequest) -> Sample:
        sample = await super().sample(request)
        self.seen.append((request, sample))
        return sample


def row() -> DatasetRow:
    parsed = parse_row('{"messages": [{"role": "user", "content": "Go."}]}', line_number=1, index=0)
    assert isinstance(parsed, DatasetRow)
    return parsed


def setup(sampler: Recorder, tool_output: Callable[[], str], budgets: Budgets) -> RolloutSetup:
    async def tool(call: ToolCall, trace_id: str) -> str:
        return tool_output()

    async def judge(trace: FinishedTrace, trace_id: str) -> float:
        return 1.0

    return RolloutSetup(
        sampler=sampler,
        chat_format=CHAT_FORMAT,
        tools=FunctionTools(tool),
        grader=FunctionGrader(judge),
        grader_name="grader",
        budgets=budgets,
        temperature=1.0,
        model_name="starter",
        clock=virtual_clock,
    )


@settings(deadline=None, max_examples=150)
@given(
    turns=st.lists(tool_turns, max_size=4),
    answer=texts,
    tool_outputs=st.lists(outputs, min_size=1, max_size=5),
    budgets=st.builds(
        Budgets,
        max_tool_calls=st.integers(0, 6),
        max_tokens=st.integers(1, 400),
        max_turns=st.integers(1, 6),
    ),
    context=st.integers(1, 1500),
)
def test_the_policy_always_sees_every_token_before(
    turns: list[str], answer: str, tool_outputs: list[str], budgets: Budgets, context: int
) -> None:
    sampler = Recorder([*turns, answer], context)
    cycle = iter(tool_outputs * 20)
    rollout = run_in_virtual_time(run_rollout(row(), KEY, setup(sampler, lambda: next(cycle), budgets)))
    trace = rollout.trace

    assert isinstance(rollout.outcome, Grade)
    assert isinstance(rollout.stop_reason, StopReason)
    assert len(trace.completion_ids_T) == len(trace.mask_T) == len(trace.logprobs_T)
    assert len(trace.token_ids) <= max(context, len(trace.prompt_ids))
    assert trace.sampled_tokens <= budgets.max_tokens
    assert len(trace.turns) == len(sampler.seen) <= budgets.max_turns

    # Every prompt starts with the last prompt and sample; the trace ends exactly where the last sample did.
    buffer: list[int] = list(trace.prompt_ids)
    for request, sample in sampler.seen:
        assert list(request.prompt_ids)[: len(buffer)] == buffer
        buffer = [*request.prompt_ids, *sample.token_ids]
    assert trace.token_ids == buffer

    # What is masked True is what was sampled, token for token and log-probability for log-probability.
    masked = list(zip(trace.completion_ids_T, trace.mask_T, trace.logprobs_T, strict=True))
    assert [token for token, is_sampled, _ in masked if is_sampled] == [
        token for _, sample in sampler.seen for token in sample.token_ids
    ]
    assert [logprob for _, is_sampled, logprob in masked if is_sampled] == [
        logprob for _, sample in sampler.seen for logprob in sample.logprobs
    ]
    assert all(logprob == 0.0 for _, is_sampled, logprob in masked if not is_sampled)


@settings(deadline=None, max_examples=60)
@given(turns=st.lists(tool_turns, max_size=3), answer=texts, output=texts)
def test_the_buffer_is_the_rendered_conversation(turns: list[str], answer: str, output: str) -> None:
    """With a policy that writes as the template does, serving sees the very tokens that training saw."""
    sampler = Recorder([*turns, answer], 100_000)
    rollout = run_in_virtual_time(run_rollout(row(), KEY, setup(sampler, lambda: output, Budgets())))
    assert rollout.stop_reason is StopReason.COMPLETED
    rendered = "<|im_start|>user\nGo.<|im_end|>\n"
    for turn in rollout.trace.turns:
        rendered += f"<|im_start|>assistant\n{turn.raw_text}<|im_end|>"
        if turn.results:
            blocks = "".join(f"\n<tool_response>\n{result.output}\n</tool_response>" for result in turn.results)
            rendered += f"\n<|im_start|>user{blocks}<|im_end|>\n"
    assert TOKENIZER.decode(rollout.trace.token_ids) == rendered
