"""docker-compose.yml is valid, and the very command line of each service runs against real servers."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
import yaml
from compose_spec import PyCompose

from castalia.ports import free_port

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker-compose.yml").read_text()
GIVEN = {"POSTGRES_PASSWORD": "a", "VALKEY_PASSWORD": "b"}


def interpolated(text: str) -> str:
    """The text with ${NAME:-default} and ${NAME:?reason} filled in, as docker compose does."""

    def value(match: re.Match) -> str:
        name, operator, rest = match.groups()
        return GIVEN[name] if operator == ":?" else GIVEN.get(name, rest)

    return re.sub(r"\$\{(\w+)(:[-?])([^}]*)\}", value, text)


# The validator knows neither merge keys nor interpolation: both are resolved for it.
COMPOSE = json.loads(interpolated(json.dumps(yaml.safe_load(TEXT))))
SERVICES = COMPOSE["services"]
OURS = ("migrate", "api", "prepare", "janitor", "train", "chat")
LIMIT_S = 60


@pytest.fixture
def run(empty_database_url, broker_url, toy_models_dir, tmp_path):
    """Starts a service of the file by its own command, with this machine's servers."""
    started = []

    def start(name: str, *, command: list[str] | None = None) -> tuple[subprocess.Popen, Path]:
        command = command or SERVICES[name]["command"]
        program = Path(sys.executable).with_name(command[0])
        log = tmp_path / f"{name}.log"
        with log.open("w") as out:
            process = subprocess.Popen(
                [program, *command[1:]],
                stdout=out,
                stderr=out,
                cwd=tmp_path,
                env={
                    "PATH": os.environ["PATH"],
                    "CASTALIA_DATABASE_URL": empty_database_url,
                    "CASTALIA_BROKER_URL": broker_url,
                    "CASTALIA_MODELS_DIR": str(toy_models_dir),
                    "CASTALIA_RUNS_DIR": str(tmp_path / "runs"),
                    "CASTALIA_CACHE_DIR": str(tmp_path / "cache"),
                },
            )
        started.append(process)
        return process, log

    yield start
    for process in started:
        process.terminate()
        process.wait(LIMIT_S)


def until(condition, log: Path):
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


def answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False


def test_the_file_is_a_compose_file():
    services = PyCompose.from_json(json.dumps(COMPOSE)).services
    assert set(services) == {"postgres", "valkey", *OURS}


def test_a_typo_in_a_service_would_be_caught():
    broken = {**SERVICES, "api": {**SERVICES["api"], "comand": ["castalia"]}}
    with pytest.raises(ValueError, match="comand"):
        PyCompose.from_json(json.dumps({**COMPOSE, "services": broken}))


def test_no_service_runs_as_root_and_all_that_stay_have_a_health_check():
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert dockerfile.count("USER castalia") == 2
    assert all(SERVICES[name]["user"] for name in ("postgres", "valkey"))
    without = {name for name, service in SERVICES.items() if "healthcheck" not in service}
    assert without == {"migrate", "janitor"}


def test_no_secret_stands_in_the_file():
    assert TEXT.count("${POSTGRES_PASSWORD:?") == 2
    assert TEXT.count("${VALKEY_PASSWORD:?") == 2


def test_only_who_has_a_model_reserves_a_gpu_and_carries_torch():
    reserving = [name for name, service in SERVICES.items() if "deploy" in service]
    assert reserving == ["train", "chat"]
    service_stage = (ROOT / "Dockerfile").read_text().partition("FROM service AS trainer")[0]
    assert "train]" not in service_stage


def test_every_service_runs_by_its_own_command_line(run):
    migrate, log = run("migrate")
    assert migrate.wait(LIMIT_S) == 0, log.read_text()
    port = free_port()
    command = [word if word != "8000" else str(port) for word in SERVICES["api"]["command"]]
    _, log = run("api", command=command)
    until(lambda: answers(f"http://127.0.0.1:{port}/readyz"), log)
    for name in ("prepare", "train", "chat"):
        _, log = run(name)
        until(lambda log=log: " ready." in log.read_text(), log)
    janitor, log = run("janitor")
    assert janitor.poll() is None


def test_the_health_checks_of_the_workers_hear_a_worker(run, broker_url):
    _, log = run("train")
    until(lambda: " ready." in log.read_text(), log)
    (script,) = SERVICES["train"]["healthcheck"]["test"][1:]
    celery = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-c", script.replace("$$", "$")],
        check=False,
        capture_output=True,
        text=True,
        env={
            "PATH": f"{celery}:{os.environ['PATH']}",
            "CASTALIA_BROKER_URL": broker_url,
            "HOSTNAME": os.uname().nodename,
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pong" in done.stdout
