"""The tokens of an answer, told with their log-probabilities, are its bytes."""

from tokenizers import Tokenizer, decoders, models, normalizers

from rft.chat.model_tokenizer import ModelTokenizer
from rft.chat.template import ChatTemplate
from rft.core.messages import Message, Role, ToolSchema
from rft.rollouts.sampler import SampleRequest
from rft.serving_wire.records import Text
from rft.testing.samplers import ScriptedSampler
from rft.testing.samplers_time import run_in_virtual_time
from tests.shared.telling_sampler import TellingSampler
from tests.unit.serving.conversing import TOKENIZER, completions, events_of, prompt_and_choices, request

ANSWER = "Né, 𓀀"
SEARCH = ToolSchema(name="search", description="Looks.", parameters={"type": "object", "properties": {}})


def script(request: SampleRequest, prompt: str) -> str:
    del request, prompt
    return ANSWER


def test_joined_they_are_the_answer_and_its_end() -> None:
    served = completions(ScriptedSampler(TOKENIZER, script))
    wanted = request([Message(role=Role.USER, content="Go.")]).model_copy(update={"has_logprobs": True})
    _, (choice,) = prompt_and_choices(run_in_virtual_time(events_of(served, wanted)))
    assert choice.content == ANSWER
    joined = b"".join(bytes(token.utf8) for token in choice.tokens)
    assert joined.decode() == f"{ANSWER}<|im_end|>"
    assert "".join(token.text for token in choice.tokens) == "N\ufffd\ufffd, \ufffd\ufffd\ufffd\ufffd<|im_end|>"


def test_what_is_told_of_an_answer_says_how_many_were_sampled_for_it() -> None:
    """Over all turns of the choice, as its whole does."""
    turns = ["<think>hm</think>One. <tool_call>{x</tool_call>", ANSWER]

    def two_turns(request: SampleRequest, prompt: str) -> str:
        del request
        return turns[prompt.count("<|im_start|>assistant") - 1]

    served = completions(TellingSampler(TOKENIZER, two_turns))
    wanted = request([Message(role=Role.USER, content="Go.")], [SEARCH], is_streamed=True)
    events = run_in_virtual_time(events_of(served, wanted))
    told = [event.completion_tokens for event in events if isinstance(event, Text)]
    _, (choice,) = prompt_and_choices([event for event in events if not isinstance(event, Text)])
    assert told == sorted(told)
    assert told[0] > len(TOKENIZER.encode("<think>hm</think>"))
    assert len(TOKENIZER.encode(turns[0])) < told[-1] <= choice.completion_tokens


def test_a_tokens_space_is_kept_where_decoders_strip_that_of_a_beginning() -> None:
    vocabulary = {"<unk>": 0, "▁two": 1, "▁": 2, "<0xF0>": 3}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    read = ModelTokenizer(tokenizer.to_str(), ChatTemplate("", {}, {}), ())
    assert read.decode([1]) == "two"
    assert [read.token_bytes(token) for token in (1, 2, 3, 99)] == [b" two", b" ", b"\xf0", b""]
