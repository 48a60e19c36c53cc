"""What tokens stand for, joined, is what the tokenizer decodes; parts of characters are bytes."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

from rft.chat.token_bytes import TokenBytes
from tests.shared.examples import examples
from tests.unit.chat.models import REAL, folder_of

PROPERTY = settings(
    deadline=None, max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module", params=sorted(REAL))
def real(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.from_str(folder_of(request.param).tokenizer_json)


@pytest.mark.lengthy
@PROPERTY
@given(text=st.text(max_size=40))
def test_joined_they_are_the_text(real: Tokenizer, text: str) -> None:
    ids = real.encode(text, add_special_tokens=False).ids
    bytes_of = TokenBytes(real)
    joined = b"".join(bytes_of.of(token) for token in ids)
    assert joined.decode() == real.decode(ids, skip_special_tokens=False)


@pytest.mark.lengthy
def test_a_character_of_several_tokens_is_bytes_and_control_tokens_are_spelled_out() -> None:
    tokenizer = Tokenizer.from_str(folder_of("qwen3").tokenizer_json)
    bytes_of = TokenBytes(tokenizer)
    parts = [bytes_of.of(token) for token in tokenizer.encode("𓀀").ids]
    assert len(parts) > 1
    assert b"".join(parts) == "𓀀".encode()
    end = tokenizer.token_to_id("<|im_end|>")
    assert end is not None
    assert bytes_of.of(end) == b"<|im_end|>"


def test_a_vocabulary_with_marked_spaces_and_byte_tokens() -> None:
    vocabulary = {"<unk>": 0, "▁Hi": 1, "▁": 2, "<0xF0>": 3, "<0x0A>": 4, "there": 5}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([AddedToken("<▁end>", normalized=False)])
    bytes_of = TokenBytes(tokenizer)
    assert [bytes_of.of(token) for token in range(6)] == [b"<unk>", b" Hi", b" ", b"\xf0", b"\n", b"there"]
    assert bytes_of.of(6) == "<▁end>".encode(), "a control token is what it is called"


@pytest.mark.parametrize("text", ["  ", "a  b", "▁▁", " \n\n  ", "\t\t"])
def test_runs_of_spaces_are_spaces_also_where_a_vocabulary_adds_them_as_tokens(real: Tokenizer, text: str) -> None:
    ids = real.encode(text, add_special_tokens=False).ids
    joined = b"".join(map(TokenBytes(real).of, ids))
    assert joined.decode() == real.decode(ids, skip_special_tokens=False)


def test_an_id_beyond_the_vocabulary_stands_for_nothing() -> None:
    assert TokenBytes(Tokenizer(models.BPE({"a": 0}, []))).of(7) == b""
