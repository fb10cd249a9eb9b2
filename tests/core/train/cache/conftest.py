"""Caches in folders of their own, and what they warn of."""

import pytest
from transformers import AutoTokenizer

from core.train.cache import CachePlace, RowCache
from core.train.inputs import model_facts, read_rows_of


@pytest.fixture
def tokenizer(toy_model):
    return AutoTokenizer.from_pretrained(toy_model)


@pytest.fixture
def place(tmp_path):
    return CachePlace(tmp_path / "cache", 10**6)


@pytest.fixture
def warnings():
    return []


@pytest.fixture
def open_cache(place, tokenizer, warnings):
    """A cache as a run opens it, of the toy model's tokenizer and of `place` unless told otherwise."""

    def do(tokenizer=tokenizer, place=place):
        return RowCache(place, tokenizer, lambda code, words: warnings.append((code, words)))

    return do


@pytest.fixture
def read(make_spec, toy_model, tmp_path, tokenizer, open_cache):
    """Read the training file of a spec of these words, through a cache that is opened for it."""

    def do(tokenizer=tokenizer, place=None, **words):
        spec = make_spec(**words).resolved(model_facts(str(toy_model), "toy"))
        cache = open_cache(tokenizer, place) if place else open_cache(tokenizer)
        return read_rows_of(spec, "training_file", tmp_path, tokenizer, cache)

    return do
