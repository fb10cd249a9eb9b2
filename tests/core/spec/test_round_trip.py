"""A spec is its JSON: written and read again it is the same, and it cannot be changed."""

import json

import pytest
from pydantic import ValidationError

from core.spec.job import JobSpec
from core.spec.optimizer import AdamWSpec, ApolloMiniSpec, ApolloSpec, ScaleSpec, SgdSpec
from core.spec.run import Manifest, ManifestFile, checkpoint_name
from core.spec.schedule import ConstantSpec, CosineSpec, LinearSpec
from core.spec.trainer import TrainerSpec


@pytest.mark.parametrize(
    "optimizer",
    [ApolloSpec(projection="rademacher"), ApolloMiniSpec(), ScaleSpec(), AdamWSpec(), SgdSpec()],
)
@pytest.mark.parametrize("schedule", [CosineSpec(), LinearSpec(), ConstantSpec()])
def test_json_and_back_is_the_same_spec(optimizer, schedule):
    trainer = TrainerSpec(optimizer=optimizer, schedule=schedule, learning_rate=0.1 + 0.2)
    spec = JobSpec(model="o/m", training_file="t", validation_file="v", trainer=trainer)
    assert JobSpec.parse(json.loads(spec.model_dump_json())) == spec
    assert JobSpec.model_validate_json(spec.model_dump_json()) == spec


def test_a_minimal_document_holds_every_default_when_written():
    written = JobSpec.parse({"model": "m", "training_file": "t"}).model_dump(mode="json")
    assert written["hyperparameters"]["n_epochs"] == 3
    assert written["trainer"]["optimizer"]["kind"] == "apollo_mini"
    assert written["trainer"]["schedule"]["warmup_ratio"] == 0.03
    assert JobSpec.parse(written).model_dump(mode="json") == written


def test_a_spec_cannot_be_changed():
    spec = JobSpec(model="m", training_file="t")
    with pytest.raises(ValidationError):
        spec.seed = 1
    with pytest.raises(ValidationError):
        spec.trainer.stream.chunk_tokens = 1


def test_a_manifest_survives_json():
    file = ManifestFile(path="model.safetensors", kind="weights", bytes=3, sha256="ab")
    manifest = Manifest(step=7, files=[file])
    assert Manifest.model_validate_json(manifest.model_dump_json()) == manifest


def test_names_of_checkpoints_sort_by_step():
    steps = [0, 9, 10, 123, 99_999_999]
    assert sorted(map(checkpoint_name, reversed(steps))) == list(map(checkpoint_name, steps))
