"""A setting that is missing or wrong is named by its variable."""

import pytest

from castalia.settings import SettingsError, read_settings
from core.store.settings import ServiceSettings
from worker.settings import WorkerSettings

URLS = {"DATABASE_URL": "postgresql://u@h/d", "BROKER_URL": "redis://h/0"}


@pytest.fixture
def env(monkeypatch):
    for name in ("ARTIFACTS_URL", "MODELS_DIR", "ALLOWED_MODELS", "LEASE_S", *URLS):
        monkeypatch.delenv(f"CASTALIA_{name}", raising=False)

    def put(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(f"CASTALIA_{name}", value)

    return put


def test_settings_come_from_the_environment(env):
    env(**URLS, LEASE_S="7.5")
    settings = read_settings(WorkerSettings)
    assert (settings.database_url, settings.lease_s) == (URLS["DATABASE_URL"], 7.5)


@pytest.mark.parametrize("missing", URLS)
def test_a_variable_that_is_missing_is_named_with_what_it_holds(env, missing):
    env(**{name: url for name, url in URLS.items() if name != missing})
    with pytest.raises(SettingsError) as error:
        read_settings(ServiceSettings)
    assert error.value.exit_code == 2
    assert error.value.message == f"CASTALIA_{missing} is not set"
    assert "://" in error.value.remedy


def test_a_value_that_cannot_be_read_is_shown(env):
    env(**URLS, LEASE_S="soon")
    with pytest.raises(SettingsError, match=r"CASTALIA_LEASE_S is 'soon': .*number"):
        read_settings(WorkerSettings)


def test_an_allow_list_of_webhooks_that_cannot_be_read_is_shown(env):
    env(**URLS, WEBHOOK_ALLOW="10.0.0.0/8,*.internal")
    with pytest.raises(
        SettingsError, match=r"CASTALIA_WEBHOOK_ALLOW is .*'\*\.internal' is no host"
    ):
        read_settings(WorkerSettings)


def test_allowed_models_are_names_with_commas_and_a_hub_s_is_pinned_to_a_commit(env):
    pinned = f"org/name@{'0a' * 20}"
    env(**URLS, ALLOWED_MODELS=f"toy, {pinned},")
    assert read_settings(ServiceSettings).allowed_models == ("toy", pinned)
    for loose in ("org/name@main", "org/name@v1.0", "org/name@", f"name@{'a' * 40}", "a/b@0a0a"):
        env(ALLOWED_MODELS=loose)
        with pytest.raises(SettingsError, match="is not pinned"):
            read_settings(ServiceSettings)
