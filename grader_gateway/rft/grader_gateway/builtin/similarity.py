"""How alike two texts are, by every metric of the contract, each in [0, 1].

The libraries behind them are slow to import, so each is imported when its metric is first asked for.
"""

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import cast

from rft.core.graders import SimilarityMetric

_WORD = re.compile(r"[^\W_]+")
_MARKS_IN_A_ROW = re.compile(r"[^\w\s]{30}")
_MARK_STOP = "\u034f"
"""A mark that none is sorted past. Marks between two of it are few, as in Unicode's stream-safe format: the time that
sorting takes grows with the square of their number."""
_JOINERS = (0x200C, 0x200D)
_MOST_PAIRS_OF_CHARS = 10**10
_MOST_PAIRS_OF_WORDS = 10**9
"""What takes a quarter of a second: the time grows with the product of both lengths, and no thread but the one that
compares runs meanwhile."""
_BLEU_WEIGHTS = (0.25, 0.25, 0.25, 0.25)

UNSUPPORTED_METRICS: dict[SimilarityMetric, str] = {
    "cosine": "it needs an embedding model; use `fuzzy_match`, `rouge_l`, or a `score_model` grader"
}
"""Metrics of the contract that are refused, with the reason."""


class TextsTooLong(ValueError):
    """Why two texts are not compared, as the end of a sentence that begins with the grader."""


def is_comparable(metric: SimilarityMetric, text: str, reference: str) -> bool:
    """Whether `similarity` raises no TextsTooLong."""
    match metric:
        case "fuzzy_match":
            return len(text) * len(reference) <= _MOST_PAIRS_OF_CHARS
        case "rouge_l":
            return len(_words(text)) * len(_words(reference)) <= _MOST_PAIRS_OF_WORDS
        case _:
            return True


def similarity(metric: SimilarityMetric, text: str, reference: str) -> float:
    """Raises ValueError for a metric that is not supported, TextsTooLong."""
    match metric:
        case "fuzzy_match":
            score = _fuzzy(text, reference)
        case "bleu":
            score = _bleu(_tokens(text), _tokens(reference))
        case "gleu":
            score = _gleu(_tokens(text), _tokens(reference))
        case "meteor":
            score = _meteor(_tokens(text), _tokens(reference))
        case "rouge_l":
            score = _rouge_l(_words(text), _words(reference))
        case "rouge_1" | "rouge_2" | "rouge_3" | "rouge_4" | "rouge_5":
            score = _rouge_n(int(metric[-1]), _words(text), _words(reference))
        case "cosine":
            raise ValueError(f"{metric}: {UNSUPPORTED_METRICS[metric]}")
    return min(1.0, max(0.0, score))


def _words(text: str) -> list[str]:
    """Lower-case letters and digits: for plain ASCII what ROUGE's reference implementation uses, but of any script,
    with the marks that are written on them, composed or not."""
    if text.isascii():
        return _WORD.findall(text.lower())
    # No underscore is left, which `\w` has among the letters.
    bounded = _MARKS_IN_A_ROW.sub(rf"\g<0>{_MARK_STOP}", text.lower().replace("_", " "))
    return _marked_word().findall(unicodedata.normalize("NFC", bounded))


@cache
def _marked_word() -> re.Pattern[str]:
    """`re` knows no class of marks; characters up to 0xFFFF in a class of their own are found ten times as fast."""
    marks = [code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)).startswith("M")]
    basic = "".join(chr(code) for code in (*marks, *_JOINERS) if code <= 0xFFFF)
    return re.compile(rf"\w+(?:(?:[{basic}]+|[{_ranges([code for code in marks if code > 0xFFFF])}]+)\w*)*")


def _ranges(codes: Sequence[int]) -> str:
    """Ascending ones, as a class of a pattern has them."""
    begins = [code for code, before in zip(codes, (-1, *codes), strict=False) if code != before + 1]
    ends = [code for code, after in zip(codes, (*codes[1:], -1), strict=True) if code != after - 1]
    return "".join(f"{chr(begin)}-{chr(end)}" for begin, end in zip(begins, ends, strict=True))


def _tokens(text: str) -> list[str]:
    """Words and punctuation, as NLTK cuts them; needs no data files.

    Its word tokenizer takes a text for one sentence and cuts off the last full stop alone. Sentences found first, by
    its untrained splitter, come to nearly the same, in fifty times as long for texts of many full stops.
    """
    from nltk.tokenize import NLTKWordTokenizer

    return [part for token in NLTKWordTokenizer().tokenize(text) for part in _without_stop(token)]


def _without_stop(token: str) -> tuple[str, ...]:
    return (token[:-1], ".") if len(token) > 1 and token[-1] == "." and token[-2] != "." else (token,)


def _fuzzy(text: str, reference: str) -> float:
    from rapidfuzz import fuzz

    _refuse_long(text, reference, most_pairs=_MOST_PAIRS_OF_CHARS, unit="characters")
    return fuzz.ratio(text, reference) / 100


def _bleu(text: Sequence[str], reference: Sequence[str]) -> float:
    """Up to four-grams, smoothed (Chen and Cherry's method 4); texts shorter than four tokens by what they have."""
    if not text or not reference:
        return 0.0
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    smooth = SmoothingFunction().method4
    score = sentence_bleu([reference], text, weights=_BLEU_WEIGHTS, smoothing_function=smooth, auto_reweigh=True)
    return cast("float", score)  # a list only where several sets of weights are given


def _gleu(text: Sequence[str], reference: Sequence[str]) -> float:
    if not text or not reference:
        return 0.0
    from nltk.translate.gleu_score import sentence_gleu

    return float(sentence_gleu([reference], text))


class _NoSynonyms:
    """A word net in which no word has synonyms, so that METEOR matches words and stems only.

    The English word net is a separate download; with it, the same job would score differently on different machines.
    """

    def synsets(self, word: str) -> tuple[()]:
        del word
        return ()


def _meteor(text: Sequence[str], reference: Sequence[str]) -> float:
    from nltk.translate.meteor_score import meteor_score

    return float(meteor_score([reference], text, wordnet=_NoSynonyms()))  # pyright: ignore[reportArgumentType]


def _rouge_n(n: int, text: Sequence[str], reference: Sequence[str]) -> float:
    ours, theirs = _ngrams(n, text), _ngrams(n, reference)
    return _f1((ours & theirs).total(), ours.total(), theirs.total())


def _rouge_l(text: Sequence[str], reference: Sequence[str]) -> float:
    from rapidfuzz.distance import LCSseq

    _refuse_long(text, reference, most_pairs=_MOST_PAIRS_OF_WORDS, unit="words")
    return _f1(LCSseq.similarity(text, reference), len(text), len(reference))


def _refuse_long(text: Sequence[str], reference: Sequence[str], *, most_pairs: int, unit: str) -> None:
    if len(text) * len(reference) > most_pairs:
        raise TextsTooLong(
            f"cannot compare {len(text):,} {unit} with {len(reference):,}: with its metric the one number times the"
            f" other may be {most_pairs:,} at most"
        )


def _ngrams(n: int, words: Sequence[str]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[at : at + n]) for at in range(len(words) - n + 1))


def _f1(common: int, ours: int, theirs: int) -> float:
    """Harmonic mean of precision and recall."""
    return 2 * common / (ours + theirs) if common else 0.0
