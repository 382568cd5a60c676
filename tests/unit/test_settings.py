from pathlib import Path

import pytest

from headwater.errors import (
    ConnectionMissing,
    InvalidSetting,
    LiteralSecret,
    SecretMissing,
    SettingsUnreadable,
    UnknownProfile,
    UnknownSetting,
)
from headwater.settings import Settings, load, revealed_of_spark


def written(folder: Path, text: str, **environment: str) -> Settings:
    (folder / "headwater.toml").write_text(text)
    return load(folder, environment=environment)


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    text = "[profile.local]\nmaster = 'local[1]'\nstorage = 'a'\ndriver_memory = '1g'\n"
    (tmp_path / "headwater.toml").write_text(text)
    environment = {"HEADWATER_STORAGE": "b", "HEADWATER_DRIVER_MEMORY": "3g"}
    settings = load(tmp_path, environment=environment, flags={"driver_memory": "5g"})
    assert (settings.master, settings.storage, settings.driver_memory) == ("local[1]", "b", "5g")
    assert settings.origins["storage"] == "environment HEADWATER_STORAGE"
    assert settings.origins["driver_memory"] == "flag"


def test_without_a_file_there_are_defaults(tmp_path: Path) -> None:
    settings = load(tmp_path, environment={})
    assert settings.profile == "local"
    assert settings.storage_root == str(tmp_path / ".headwater")


def test_an_unknown_key_names_the_nearest_and_its_line(tmp_path: Path) -> None:
    with pytest.raises(UnknownSetting) as caught:
        written(tmp_path, "app = 'app.py'\n[profile.local]\nstorrage = 'x'\n")
    assert caught.value.remedy == "did you mean 'storage'?"
    assert caught.value.where is not None
    assert caught.value.where.line == 3


@pytest.mark.parametrize("value", ["'two'", "0", "-1", "true"])
def test_a_number_must_be_one(tmp_path: Path, value: str) -> None:
    with pytest.raises(InvalidSetting):
        written(tmp_path, f"[profile.local]\nshuffle_partitions = {value}\n")


def test_broken_toml_says_where(tmp_path: Path) -> None:
    with pytest.raises(SettingsUnreadable, match="line 1"):
        written(tmp_path, "app = \n")


def test_an_unknown_profile_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UnknownProfile, match="cluster"):
        written(tmp_path, "[profile.cluster]\nmaster = 'x'\n", HEADWATER_PROFILE="clustre")


@pytest.mark.parametrize(
    "option", ["password", "ssl_key_password", "api_token", "sasl.jaas.config"]
)
def test_a_literal_secret_is_refused_and_not_repeated(tmp_path: Path, option: str) -> None:
    with pytest.raises(LiteralSecret) as caught:
        written(tmp_path, f"[profile.local.connections.kafka]\n'{option}' = 'hunter2'\n")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "[profile.local.connections.db]\nurl = 'jdbc:postgresql://ada:hunter2@host/db'\n",
        "[profile.local.connections.db]\nurl = 'jdbc:postgresql://host/db?password=hunter2'\n",
        "[profile.local.spark]\n'spark.hadoop.fs.s3a.secret.key' = 'hunter2'\n",
        "[profile.local.spark]\n'spark.hadoop.fs.azure.account.key.me.net' = 'hunter2'\n",
    ],
)
def test_a_secret_is_found_in_an_address_and_among_sparks_settings(
    tmp_path: Path, text: str
) -> None:
    with pytest.raises(LiteralSecret) as caught:
        written(tmp_path, text)
    assert "hunter2" not in str(caught.value)


def test_a_secret_of_spark_is_read_when_a_session_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "spark.hadoop.fs.s3a.secret.key"
    settings = written(tmp_path, f"[profile.local.spark]\n'{key}' = 'env:S3_SECRET'\n")
    assert settings.spark[key] == "env:S3_SECRET"
    with pytest.raises(SecretMissing):
        revealed_of_spark(key, settings.spark[key], "local")
    monkeypatch.setenv("S3_SECRET", "s3cret")
    assert revealed_of_spark(key, settings.spark[key], "local") == "s3cret"


def test_a_secret_is_read_when_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("from a file\n")
    text = f"""[profile.local.connections.db]
    user = 'env:DB_USER'
    password = 'file:{tmp_path / "secret"}'
    """
    connection = written(tmp_path, text).connection("db")
    with pytest.raises(SecretMissing):
        connection.get("user")
    monkeypatch.setenv("DB_USER", "ada")
    assert (connection.require("user"), connection.require("password")) == ("ada", "from a file")


def test_a_connection_says_where_it_came_from(tmp_path: Path) -> None:
    text = "[profile.local.connections.kafka]\nbootstrap_servers = 'broker:9092'\n"
    connection = written(tmp_path, text).connection("kafka")
    assert connection.origin == "headwater.toml [profile.local.connections.kafka]"


def test_a_connection_that_nobody_declared_is_an_error_with_the_next_command(
    tmp_path: Path,
) -> None:
    with pytest.raises(ConnectionMissing) as caught:
        load(tmp_path, environment={}).connection("kafka")
    assert caught.value.next_command == "headwater services up kafka"


def test_a_misspelt_variable_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnknownSetting) as caught:
        load(tmp_path, environment={"HEADWATER_STORAG": "x"})
    assert caught.value.remedy == "did you mean 'HEADWATER_STORAGE'?"


def test_a_secret_file_is_found_from_the_projects_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    text = "[profile.local.connections.db]\npassword = 'file:secret'\n"
    assert written(tmp_path, text).connection("db").require("password") == "s3cret"


def test_a_local_master_says_how_many_cores_it_has() -> None:
    assert Settings(folder=Path(), master="local[3]").cores == 3
    assert Settings(folder=Path(), master="local").cores == 1


def test_what_another_system_says_is_shown_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "open sesame")
    options = {"url": "jdbc:shop", "password": "env:SHOP_PASSWORD", "other": "env:NOT_THERE"}
    settings = Settings(tmp_path, connections={"shop": options})
    said = settings.without_secrets("jdbc:shop refused 'open sesame'")
    assert said == "jdbc:shop refused '(not shown)'"
