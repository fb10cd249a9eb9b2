"""The catalog knows the models that lie in its folder, and no name leads out of it."""

import json

import pytest

from core.models.catalog import (
    Catalog,
    NeedsCode,
    PickledWeights,
    UnknownModel,
    UnreadableModel,
)

TEXT = {"vocab_size": 100, "max_position_embeddings": 64}


@pytest.fixture
def catalog(tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    return Catalog(folder)


def put(catalog, name, **config):
    folder = catalog.folder / name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_models_are_folders_with_a_configuration_one_or_two_deep(catalog):
    put(catalog, "plain")
    put(catalog, "organisation/model")
    put(catalog, "a/b/too-deep")
    (catalog.folder / "no-model").mkdir()
    assert catalog.names() == ["organisation/model", "plain"]
    assert catalog.path("organisation/model") == catalog.folder / "organisation" / "model"


def test_a_model_that_is_added_is_seen_at_once(catalog):
    assert catalog.names() == []
    put(catalog, "new")
    assert catalog.names() == ["new"]


def test_a_folder_that_is_not_there_holds_no_model(tmp_path):
    assert Catalog(tmp_path / "none").names() == []


@pytest.mark.parametrize("name", ["../outside", "plain/../../outside", "/etc", "", ".", "plain/"])
def test_only_a_name_that_was_found_is_opened(catalog, name):
    put(catalog, "plain")
    put(catalog, "../outside")
    with pytest.raises(UnknownModel, match="available: plain"):
        catalog.path(name)


def test_an_empty_catalog_tells_what_to_do(catalog):
    with pytest.raises(UnknownModel, match="put a model's folder into the models folder"):
        catalog.facts("m")


@pytest.mark.parametrize(
    ("config", "longest"),
    [
        (TEXT, 64),
        ({"vocab_size": 100, "n_positions": 32}, 32),
        ({"vocab_size": 100}, None),
        ({"text_config": TEXT, "max_position_embeddings": 1}, 64),
    ],
)
def test_facts_are_read_from_the_configuration(catalog, config, longest):
    put(catalog, "m", architectures=["LlamaForCausalLM"], **config)
    facts = catalog.facts("m")
    assert (facts.name, facts.architecture) == ("m", "LlamaForCausalLM")
    assert (facts.longest_context, facts.vocabulary) == (longest, 100)


def test_without_an_architecture_the_model_type_tells(catalog):
    put(catalog, "m", model_type="llama", **TEXT)
    assert catalog.facts("m").architecture == "llama"


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("{", "Expecting property name"),
        ('{"model_type": "llama"}', "'vocab_size' is missing"),
        ("[]", "'list' object has no attribute"),
        ('{"vocab_size": "many"}', "valid integer"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_told_with_the_model(catalog, config, reason):
    (put(catalog, "broken") / "config.json").write_text(config)
    with pytest.raises(UnreadableModel, match="'broken'") as refused:
        catalog.facts("broken")
    assert reason in str(refused.value)


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_a_model_that_wants_code_of_its_own_is_refused_by_the_file_that_says_so(catalog, file):
    folder = put(catalog, "m", **TEXT)
    wants = {**TEXT, "auto_map": {"AutoModelForCausalLM": "evil.Evil"}}
    (folder / file).write_text(json.dumps(wants))
    with pytest.raises(NeedsCode, match=f"auto_map in its {file}"):
        catalog.facts("m")


@pytest.mark.parametrize("file", ["pytorch_model.bin", "consolidated.00.pth", "weights.pt"])
def test_weights_that_are_only_pickles_are_refused_by_the_file_s_name(catalog, file):
    folder = put(catalog, "m", **TEXT)
    (folder / file).write_bytes(b"")
    with pytest.raises(PickledWeights, match=file):
        catalog.facts("m")
    (folder / "model.safetensors").write_bytes(b"")
    assert catalog.facts("m").vocabulary == 100


def test_only_names_that_are_allowed_are_known(tmp_path):
    pinned = f"org/m@{'a' * 40}"
    everything = Catalog(tmp_path)
    for name in ("plain", pinned, "other"):
        put(everything, name, **TEXT)
    catalog = Catalog(tmp_path, ("plain", pinned, "absent"))
    assert catalog.names() == [pinned, "plain"]
    with pytest.raises(UnknownModel, match="does not exist"):
        catalog.path("other")
    with pytest.raises(UnknownModel, match="does not lie in the models folder yet"):
        catalog.path("absent")
    with pytest.raises(UnknownModel, match="by the name with its commit alone"):
        catalog.path("org/m")
    with pytest.raises(UnknownModel, match="by the name with its commit alone"):
        catalog.path("org/m@main")
