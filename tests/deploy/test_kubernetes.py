"""The manifests of deploy/ are what Kubernetes takes, and say what the code reads and runs."""

import copy
from pathlib import Path

import kubernetes_validate
import pytest
import typer.main
import yaml

from api.serve import GRACE_S
from api.settings import ApiSettings
from castalia.__main__ import app
from worker.settings import WorkerSettings

ROOT = Path(__file__).parents[2]
BASE = ROOT / "deploy" / "base"
KUBERNETES = "1.34"
KUSTOMIZATION = yaml.safe_load((BASE / "kustomization.yaml").read_text())
OBJECTS = [
    found
    for name in KUSTOMIZATION["resources"]
    for found in yaml.safe_load_all((BASE / name).read_text())
]
PODS = {
    found["metadata"]["name"].removeprefix("castalia-"): found["spec"]["template"]
    for found in OBJECTS
    if "template" in found["spec"]
}
CONTAINERS = {name: pod["spec"]["containers"][0] for name, pod in PODS.items()}
(CONFIG,) = KUSTOMIZATION["configMapGenerator"]
GIVEN = dict(literal.split("=", 1) for literal in CONFIG["literals"])
SECRET = {"CASTALIA_DATABASE_URL", "CASTALIA_BROKER_URL"}
FOLDERS = {"train": ("RUNS_DIR", "MODELS_DIR", "CACHE_DIR"), "prepare": ("MODELS_DIR",)}


def title(found: dict) -> str:
    return f"{found['kind']}-{found['metadata']['name']}"


def check(found: dict) -> None:
    kubernetes_validate.validate(found, KUBERNETES, strict=True)


@pytest.mark.parametrize("found", OBJECTS, ids=title)
def test_every_object_is_one_of_kubernetes(found):
    check(found)


def test_a_typo_in_an_object_would_be_caught():
    broken = copy.deepcopy(next(found for found in OBJECTS if found["kind"] == "Deployment"))
    broken["spec"]["template"]["spec"]["containers"][0]["comand"] = ["castalia"]
    with pytest.raises(kubernetes_validate.ValidationError, match="comand"):
        check(broken)


def test_every_manifest_is_a_resource_of_the_kustomization():
    assert {path.name for path in BASE.glob("*.yaml")} == {
        "kustomization.yaml",
        *KUSTOMIZATION["resources"],
    }


def test_every_variable_is_a_setting_with_a_value_that_it_takes(monkeypatch):
    fields = {*ApiSettings.model_fields, *WorkerSettings.model_fields}
    assert {*GIVEN, *SECRET} <= {f"CASTALIA_{name.upper()}" for name in fields}
    for name, value in (GIVEN | dict.fromkeys(SECRET, "a://b")).items():
        monkeypatch.setenv(name, value)
    ApiSettings()
    WorkerSettings()


def test_no_variable_comes_from_elsewhere():
    for container in CONTAINERS.values():
        assert "env" not in container
        assert container["envFrom"] == [
            {"configMapRef": {"name": CONFIG["name"]}},
            {"secretRef": {"name": "castalia"}},
        ]


@pytest.mark.parametrize("name", CONTAINERS)
def test_every_command_is_one_of_ours_and_its_options_parse(name):
    program, *words = CONTAINERS[name]["command"]
    assert program == "castalia"
    command = typer.main.get_command(app).commands[words[0]]
    command.make_context(words[0], words[1:])


@pytest.mark.parametrize("name", CONTAINERS)
def test_no_process_is_root_or_writes_into_its_image(name):
    pod, container = PODS[name]["spec"], CONTAINERS[name]
    assert pod["securityContext"]["runAsNonRoot"]
    assert f"--uid {pod['securityContext']['runAsUser']} " in (ROOT / "Dockerfile").read_text()
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {"/tmp", "/home/castalia"} <= mounted
    for setting in FOLDERS.get(name, ()):
        assert any(GIVEN[f"CASTALIA_{setting}"].startswith(folder) for folder in mounted)


def test_selectors_of_services_and_budgets_find_pods():
    labels = [pod.get("metadata", {}).get("labels") for pod in PODS.values()]
    selectors = [
        found["spec"]["selector"].get("matchLabels", found["spec"]["selector"])
        for found in OBJECTS
        if "selector" in found["spec"]
    ]
    assert selectors
    assert all(selector in labels for selector in selectors)


def test_a_pod_has_the_time_that_its_process_takes_to_end():
    hand_back = 1.5 * float(GIVEN["CASTALIA_STOP_GRACE_S"])
    assert PODS["train"]["spec"]["terminationGracePeriodSeconds"] > hand_back
    asleep = CONTAINERS["api"]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert PODS["api"]["spec"]["terminationGracePeriodSeconds"] > asleep + GRACE_S


def test_an_outage_of_the_broker_restarts_no_worker():
    workers = [name for name, found in CONTAINERS.items() if "worker" in found["command"]]
    assert sorted(workers) == ["prepare", "train"]
    assert not [name for name in workers if "livenessProbe" in CONTAINERS[name]]


def test_only_the_trainer_asks_for_a_gpu():
    asking = {n for n, c in CONTAINERS.items() if "nvidia.com/gpu" in c["resources"]["limits"]}
    assert asking == {n for n, c in CONTAINERS.items() if "trainer" in c["image"]} == {"train"}
