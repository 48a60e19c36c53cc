"""Text similarity: in [0, 1], and what the reference implementations say."""

import re
import time
import unicodedata
from collections import Counter
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tokenize import NLTKWordTokenizer, PunktSentenceTokenizer
from rouge_score.rouge_scorer import RougeScorer

from rft.core.base import JsonObject
from rft.core.failure import Failure, FailureCode, Fault
from rft.core.grade import Grade
from rft.core.graders import SimilarityMetric, TextSimilarityGrader
from rft.grader_gateway.builtin.similarity import UNSUPPORTED_METRICS, similarity
from rft.grader_gateway.builtin.text_similarity import TextSimilarity
from tests.shared.finished import finished

METRICS: list[SimilarityMetric] = [metric for metric in get_args(SimilarityMetric) if metric not in UNSUPPORTED_METRICS]
LONG = "The quick brown fox jumps over the lazy dog near the river bank today"


@pytest.mark.parametrize("metric", METRICS)
def test_the_same_long_text_is_as_alike_as_can_be(metric: SimilarityMetric) -> None:
    assert similarity(metric, LONG, LONG) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("metric", METRICS)
def test_texts_with_nothing_in_common_are_hardly_alike(metric: SimilarityMetric) -> None:
    assert similarity(metric, "zzz yyy xxx www vvv", LONG) < 0.25


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("text", "reference"), [("", ""), ("", LONG), (LONG, ""), ("a", "a"), ("日本語", "日本語"), (".", "!")]
)
def test_small_texts_have_a_score_too(metric: SimilarityMetric, text: str, reference: str) -> None:
    assert 0.0 <= similarity(metric, text, reference) <= 1.0


KNOWN: list[tuple[SimilarityMetric, str, str, float]] = [
    ("fuzzy_match", "fuzzy wuzzy was a bear", "wuzzy fuzzy was a bear", 10 / 11),
    ("rouge_1", "the cat", "the cat sat", 0.8),
    ("rouge_2", "the cat sat", "the cat ran", 0.5),
    ("rouge_l", "the fat cat sat", "the cat sat", 6 / 7),
    ("rouge_1", "日本 語", "日本 人", 0.5),
    ("gleu", "the cat sat", "the cat sat down", 0.6),
    ("bleu", "the cat", "the cat", 1.0),
    ("meteor", "cats running fast now", "cat runs fast now", 0.9921875),
]


@pytest.mark.parametrize(("metric", "text", "reference", "score"), KNOWN)
def test_a_known_score(metric: SimilarityMetric, text: str, reference: str, score: float) -> None:
    assert similarity(metric, text, reference) == pytest.approx(score, abs=1e-9)


@pytest.mark.parametrize("metric", ["bleu", "gleu"])
def test_a_word_before_a_full_stop_is_that_word_wherever_it_stands(metric: SimilarityMetric) -> None:
    score = similarity(metric, "Rome. Paris.", "Paris. Rome.")
    assert score == pytest.approx(similarity(metric, "Rome . Paris .", "Paris . Rome ."))


@pytest.mark.parametrize(
    "text",
    [
        "I live in Paris. It rains. It costs $3.50, e.g. today... And then?",
        "She said it. (It rains.) Yes.",
        "Mr. Smith (of Paris.) left. Why?! No.",
        "...",
        ". .",
    ],
)
def test_tokens_are_those_of_a_text_cut_into_sentences(text: str) -> None:
    sentences, words = PunktSentenceTokenizer().tokenize(text), NLTKWordTokenizer()
    apart = " ".join(word for sentence in sentences for word in words.tokenize(sentence))
    assert similarity("gleu", text, apart) == 1.0


TEXTS = st.lists(st.sampled_from(["the", "cat", "Sat", "on", "a", "mat", "mat.", "x-ray", "42"]), max_size=12).map(
    " ".join
)


@given(TEXTS, TEXTS)
@settings(max_examples=60)
def test_rouge_is_the_reference_implementations(text: str, reference: str) -> None:
    kinds = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_5": "rouge5", "rouge_l": "rougeL"}
    theirs = RougeScorer(list(kinds.values())).score(reference, text)
    for metric, kind in kinds.items():
        assert similarity(metric, text, reference) == pytest.approx(theirs[kind].fmeasure)  # pyright: ignore[reportArgumentType]


@given(st.text(st.characters(codec="ascii"), max_size=60), st.text(st.characters(codec="ascii"), max_size=60))
def test_rouge_of_ascii_text_sees_letters_and_digits(text: str, reference: str) -> None:
    ours, theirs = (Counter(re.findall(r"[^\W_]+", one.lower())) for one in (text, reference))
    common = (ours & theirs).total()
    expected = 2 * common / (ours.total() + theirs.total()) if common else 0.0
    assert similarity("rouge_1", text, reference) == pytest.approx(expected)


@pytest.mark.parametrize("metric", ["rouge_1", "rouge_l"])
@pytest.mark.parametrize(
    ("text", "reference", "score"),
    [
        ("राम की किताब", "राम का किताबें", 1 / 3),
        ("ที่นี่", "ทีนี", 0.0),
        ("مُدَرِّس جديد", "مُدَرِّس قديم", 0.5),
        ("क्\u200dष", "क्", 0.0),
        ("un résumé", unicodedata.normalize("NFD", "un résumé"), 1.0),
        ("한국 e_\u0301a", unicodedata.normalize("NFD", "한국 e a"), 1.0),
        ("\U00011013\U00011038", "\U00011013", 0.0),
    ],
)
def test_a_mark_belongs_to_its_word(metric: SimilarityMetric, text: str, reference: str, score: float) -> None:
    assert similarity(metric, text, reference) == pytest.approx(score)


@given(st.text(max_size=60))
@settings(deadline=None)
def test_composed_and_decomposed_texts_are_the_same_to_rouge(text: str) -> None:
    words = similarity("rouge_1", text, text)
    assert similarity("rouge_1", unicodedata.normalize("NFD", text), unicodedata.normalize("NFC", text)) == words


@pytest.mark.parametrize("marks", ["\u0301\u0316", "\u0301", "\u200d", "_", "!"])
def test_many_marks_in_a_row_take_no_more_time_than_other_text(marks: str) -> None:
    begun_s = time.process_time()
    similarity("rouge_1", f"a{marks * 200_000}b", "é")
    assert time.process_time() - begun_s < 10, "Sorting so many marks takes minutes"


@given(st.sampled_from(METRICS), st.text(max_size=60), st.text(max_size=60))
@settings(deadline=None)
def test_any_two_texts_have_a_score(metric: SimilarityMetric, text: str, reference: str) -> None:
    assert 0.0 <= similarity(metric, text, reference) <= 1.0


def grader(metric: SimilarityMetric) -> TextSimilarity:
    spec = TextSimilarityGrader(
        name="alike", input="{{ sample.output_text }}", reference="{{ item.answer }}", evaluation_metric=metric
    )
    return TextSimilarity(spec)


async def test_a_grade() -> None:
    grade = await grader("rouge_1").grade(finished("the cat"), item={"answer": "the cat sat"}, trace_id="t")
    assert isinstance(grade, Grade)
    assert grade.scores == {"alike": pytest.approx(0.8)}


async def test_a_row_without_the_reference_has_no_grade() -> None:
    assert isinstance(await grader("bleu").grade(finished(), item={}, trace_id="t"), Failure)


def test_a_metric_that_needs_embeddings_is_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match="embedding"):
        grader("cosine")


@pytest.mark.parametrize(
    ("metric", "word", "says"),
    [
        ("fuzzy_match", "a", "cannot compare 100,000 characters with 100,001:"),
        ("rouge_l", "a ", "cannot compare 31,623 words with 31,623:"),
    ],
)
async def test_texts_whose_comparison_would_stop_everything_else_are_no_zero_but_a_failure(
    metric: SimilarityMetric, word: str, says: str
) -> None:
    text, reference = (word * int(number.replace(",", "")) for number in re.findall(r"[\d,]+\d", says))
    failure = await grader(metric).grade(finished(text), item={"answer": reference}, trace_id="t")
    assert isinstance(failure, Failure)
    assert (failure.code, failure.fault) == (FailureCode.OVERSIZE_REQUEST, Fault.ENDPOINT)
    assert says in failure.message


@pytest.mark.parametrize(
    ("metric", "answer", "reference"),
    [("fuzzy_match", "a" * 200_001, "a" * 50_000), ("rouge_l", "a " * 100_001, "a " * 10_000)],
)
async def test_an_answer_too_long_to_be_compared_with_a_usual_reference_gets_the_invalid_grade(
    metric: SimilarityMetric, answer: str, reference: str
) -> None:
    """To leave it out of the training would reward its length; who answers is not to fail the job."""
    grade = await grader(metric).grade(finished(answer), item={"answer": reference}, trace_id="t")
    assert isinstance(grade, Grade)
    assert (grade.reward, grade.is_invalid, grade.model_errors) == (0.0, True, ("sample_parse_error",))
    assert "cannot compare" in (grade.error_details or "")


async def test_a_long_row_beside_the_answer_is_not_the_answers_doing() -> None:
    spec = TextSimilarityGrader(
        name="alike",
        input="{{ item.notes }}{{ sample.output_text }}",
        reference="{{ item.answer }}",
        evaluation_metric="fuzzy_match",
    )
    item: JsonObject = {"notes": "a" * 200_001, "answer": "a" * 50_000}
    failure = await TextSimilarity(spec).grade(finished("4"), item=item, trace_id="t")
    assert isinstance(failure, Failure)
    assert failure.code is FailureCode.OVERSIZE_REQUEST


@pytest.mark.lengthy
@pytest.mark.parametrize("metric", METRICS)
async def test_a_long_answer_is_compared_with_a_reference_of_usual_length(metric: SimilarityMetric) -> None:
    grade = await grader(metric).grade(finished("so long " * 50_000), item={"answer": LONG * 20}, trace_id="t")
    assert isinstance(grade, Grade)
