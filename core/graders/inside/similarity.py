"""How alike two texts are, from 0 to 1, by the libraries that papers cite.

fuzzy_match  1 - indel distance / total length                         rapidfuzz, fuzz.ratio
bleu         sentence BLEU, exponential smoothing, 13a tokens          sacrebleu (arXiv 1804.08771)
gleu         min(precision, recall) over 1- to 4-grams, 13a tokens     nltk (arXiv 1609.08144, 6)
rouge_n      F1 over n-grams, no stemming                              rouge-score (Lin, 2004)
rouge_l      F1 over the longest common subsequence, no stemming       rouge-score
"""

from collections.abc import Callable
from typing import Any

from core.graders.inside.library import explained, library

Measure = Callable[[str, str], float]


class Similarity:
    """The job: settings ``metric``; payload ``input`` and ``reference``."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.metric: str = settings["metric"]
        self.measure: Measure | None = None

    def prepare(self) -> None:
        """Import the metric's library."""
        makers = {"fuzzy_match": fuzzy_match, "bleu": bleu, "gleu": gleu}
        maker = makers.get(self.metric)
        self.measure = maker() if maker else rouge(self.metric)

    def run(self, payload: dict[str, Any]) -> float:
        """The likeness."""
        assert self.measure is not None
        return min(1.0, max(0.0, self.measure(payload["input"], payload["reference"])))

    def explain(self, error: BaseException) -> str:
        """The library's own words."""
        return explained(error)


def fuzzy_match() -> Measure:
    """Likeness by insertions and deletions."""
    fuzz = library("rapidfuzz.fuzz")
    return lambda text, reference: fuzz.ratio(text, reference) / 100


def bleu() -> Measure:
    """BLEU of one sentence."""
    sacrebleu = library("sacrebleu")
    return lambda text, reference: sacrebleu.sentence_bleu(text, [reference]).score / 100


def gleu() -> Measure:
    """Google's BLEU for one sentence; 0 where there is no n-gram at all."""
    score = library("nltk.translate.gleu_score").sentence_gleu
    tokens = library("sacrebleu.tokenizers.tokenizer_13a").Tokenizer13a()
    return lambda text, reference: score([tokens(reference).split()], tokens(text).split())


def rouge(metric: str) -> Measure:
    """F1 of ``rouge_1`` to ``rouge_5`` or ``rouge_l``."""
    kind = metric.replace("_", "").replace("l", "L")
    scorer = library("rouge_score.rouge_scorer").RougeScorer([kind])
    return lambda text, reference: scorer.score(reference, text)[kind].fmeasure
