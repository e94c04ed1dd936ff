"""Settings: every value arrives, every bad one is refused with its key, itself and what is allowed."""

import json
from pathlib import Path

import numpy as np
import pytest

from learner import ALGORITHMS
from learner.browsing import table_hash, typical_table
from streams.settings import UP_FOLDER, Bucket, Settings, load, read_examination, write_examination, write_running
from streams.settings.settings import SettingsError

TABLE = np.tril(np.linspace(0.1, 0.9, 9).reshape(3, 3))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path_factory, monkeypatch):
    """Another folder than that of a developer whose `glimpse up` runs."""
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))


def written(folder: Path, text: str) -> Path:
    (folder / "glimpse.toml").write_text(text)
    return folder / "glimpse.toml"


def test_everything_has_a_default():
    settings = load(environ={})
    assert (settings.kafka, settings.redis, settings.wait_s, settings.horizon_s) == ("127.0.0.1:9092", None, 600, 1200)
    assert settings.kafka_options() == {"bootstrap_servers": ["127.0.0.1:9092"], "bootstrap_timeout_ms": 6_000}
    assert settings.redis_client() == {}


def test_the_environment_wins_over_the_file(tmp_path):
    file = written(tmp_path, 'kafka = "a:1"\nwait_s = 5\nlateness_s = 7\n')
    settings = load(file, environ={"GLIMPSE_KAFKA": "b:2,c:3", "GLIMPSE_WAIT_S": "6.5", "GLIMPSE_PARTITIONS": "8"})
    assert (settings.kafka, settings.wait_s, settings.lateness_s, settings.partitions) == ("b:2,c:3", 6.5, 7, 8)
    assert settings.kafka_options()["bootstrap_servers"] == ["b:2", "c:3"]


def test_the_file_is_found_by_variable_or_in_the_folder(tmp_path, monkeypatch):
    written(tmp_path, "partitions = 9\n")
    assert load(environ={"GLIMPSE_CONFIG": str(tmp_path / "glimpse.toml")}).partitions == 9
    monkeypatch.chdir(tmp_path)
    assert load(environ={}).partitions == 9


def test_buckets_come_with_their_tables(tmp_path):
    (tmp_path / "tables").mkdir()
    write_examination(tmp_path / "tables" / "w.json", TABLE, observations=np.ones((3, 3), dtype=int))
    file = written(
        tmp_path,
        """
        [buckets.ubm]
        algorithm = "ubm-linucb"
        examination = "tables/w.json"
        ridge = "safe"
        dim = 4
        [buckets.pbm]
        algorithm = "pbm-ucb"
        examination = [0.9, 0.5]
        [buckets.plain]
        [buckets.new]
        algorithm = "ubm-linucb"
        examination = "default"
        positions = 5
        [buckets.new-items]
        algorithm = "pbm-ucb"
        examination = "default"
        """,
    )
    buckets = load(file, environ={}).buckets
    new, items = buckets.pop("new"), buckets.pop("new-items")
    np.testing.assert_array_equal(new.examination, typical_table(5))
    np.testing.assert_array_equal(items.examination, 1 / np.arange(1, 13))
    assert new.model().settings()["examination"] == table_hash(typical_table(5)), "snapshots carry it"
    assert {name: (b.algorithm, b.dim, b.positions) for name, b in buckets.items()} == {
        "ubm": ("ubm-linucb", 4, 3),
        "pbm": ("pbm-ucb", 10, 2),
        "plain": ("c2ucb", 10, 12),
    }
    np.testing.assert_array_equal(buckets["ubm"].examination, TABLE)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_makes_its_model(algorithm):
    seen = {"ubm-linucb": TABLE, "pbm-ucb": np.array([0.9, 0.5, 0.2])}.get(algorithm)
    model = Bucket("b", algorithm, dim=5, positions=3, examination=seen, alpha=0.5, reward_scale=2.0).model()
    assert type(model) is ALGORITHMS[algorithm]
    assert (model.positions, model.alpha, model.rounds) == (3, 0.0 if algorithm == "random" else 0.5, 0)
    assert model.dim == (5 if type(model).contextual else 0)


def test_secrets_come_from_variables_and_files_and_are_never_shown(tmp_path):
    (tmp_path / "redis-password").write_text("hunter2 \n")
    login = {"GLIMPSE_KAFKA_SECURITY": "SASL_PLAINTEXT", "GLIMPSE_KAFKA_USERNAME": "join"}
    file = written(tmp_path, 'redis_password_file = "redis-password"\nredis_username = "ranker"\n')
    settings = load(file, environ=login | {"GLIMPSE_KAFKA_PASSWORD": "s3cret"})
    assert settings.redis_client() == {"username": "ranker", "password": "hunter2 "}
    assert settings.kafka_options()["sasl_plain_password"] == "s3cret"
    assert "s3cret" not in repr(settings)
    assert "hunter2" not in repr(settings)
    (tmp_path / "kafka-password").write_text("fr0m-file")
    settings = load(environ=login | {"GLIMPSE_KAFKA_PASSWORD_FILE": str(tmp_path / "kafka-password")})
    assert settings.kafka_options()["sasl_plain_password"] == "fr0m-file"


def test_variables_that_kubernetes_makes_are_passed_over():
    made = {
        "GLIMPSE_SERVICE_HOST": "10.0.0.1",
        "GLIMPSE_KAFKA_PORT": "tcp://10.0.0.2:9092",
        "GLIMPSE_PORT_6066_TCP_PORT": "6066",
    }
    assert load(environ=made) == Settings()


BAD_VARIABLES = {
    "not a number": ({"GLIMPSE_WAIT_S": "soon"}, "GLIMPSE_WAIT_S = 'soon': must be a number"),
    "negative": ({"GLIMPSE_WAIT_S": "-1"}, "GLIMPSE_WAIT_S = -1.0: must be a number at least 0"),
    "nan": ({"GLIMPSE_LATENESS_S": "nan"}, "GLIMPSE_LATENESS_S = nan: must be a number"),
    "infinite": ({"GLIMPSE_PUBLISH_EVERY_S": "inf"}, "GLIMPSE_PUBLISH_EVERY_S = inf"),
    "half a partition": ({"GLIMPSE_PARTITIONS": "2.5"}, "GLIMPSE_PARTITIONS = '2.5': must be a whole number"),
    "no port": ({"GLIMPSE_KAFKA": "localhost"}, "GLIMPSE_KAFKA = 'localhost': must be host:port"),
    "port too high": ({"GLIMPSE_KAFKA": "a:1,b:70000"}, "must be host:port"),
    "a strange prefix": ({"GLIMPSE_TOPIC_PREFIX": "a b/"}, "GLIMPSE_TOPIC_PREFIX = 'a b/': must be made of letters"),
    "a misspelt choice": ({"GLIMPSE_TIMESTAMPS": "CreatTime"}, "LogAppendTime, CreateTime; did you mean CreateTime?"),
    "a misspelt variable": (
        {"GLIMPSE_WAITS": "3"},
        "GLIMPSE_WAITS = '***': no such variable; did you mean GLIMPSE_WAIT_S?",
    ),
    "more in sync than replicas": (
        {"GLIMPSE_MIN_INSYNC": "2"},
        "GLIMPSE_MIN_INSYNC = 2: must be a whole number from 1 to 1",
    ),
    "redis without a scheme": ({"GLIMPSE_REDIS": "127.0.0.1:6379"}, "must be redis://host:port/db"),
    "redis with a bad port": (
        {"GLIMPSE_REDIS": "redis://h:99999"},
        "must be redis://host:port/db, with a port up to 65535",
    ),
    "login without a name": ({"GLIMPSE_KAFKA_SECURITY": "SASL_SSL"}, "KAFKA_USERNAME = None: SASL_SSL needs one"),
    "login over a plain listener": ({"GLIMPSE_KAFKA_USERNAME": "me"}, "must be SASL_SSL or SASL_PLAINTEXT to log in"),
    "a lost certificate": (
        {"GLIMPSE_KAFKA_CA": "/nowhere.pem"},
        "GLIMPSE_KAFKA_CA = '/nowhere.pem': there is no such file",
    ),
    "a lost secret": (
        {"GLIMPSE_REDIS_PASSWORD_FILE": "/nowhere"},
        "GLIMPSE_REDIS_PASSWORD_FILE = '/nowhere': cannot be read",
    ),
    "a lost file": (
        {"GLIMPSE_CONFIG": "/nowhere.toml"},
        "glimpse.toml = '/nowhere.toml': cannot be read: No such file",
    ),
}


@pytest.mark.parametrize("environ, said", BAD_VARIABLES.values(), ids=BAD_VARIABLES)
def test_a_bad_variable_is_refused(environ, said):
    with pytest.raises(SettingsError) as refused:
        load(environ=environ)
    assert said.lower() in str(refused.value).lower()
    assert "\n" not in str(refused.value)


BAD_FILES = {
    "no TOML": ("kafka = ", "is not TOML: Invalid value"),
    "a misspelt key": ("wait = 3", "glimpse.toml: wait = '***': no such key; did you mean wait_s?"),
    "text for a number": ('wait_s = "3"', "glimpse.toml: wait_s = '3': must be a number"),
    "true for a number": ("wait_s = true", "wait_s = True: must be a number"),
    "a number for text": ("web_host = 5", "web_host = 5: must be text"),
    "a password": ('kafka_password = "hunter2"', "kafka_password = '***': secrets do not belong here"),
    "a misspelt password": ('kafka_pasword = "hunter2"', "kafka_pasword = '***': no such key"),
    "a password in a table": ('[kafka_sasl]\npassword = "hunter2"', "kafka_sasl = a table of 1: must be text"),
    "a password of a bucket": ('[buckets.a]\npassword = "hunter2"', "buckets.a.password = '***': no such key"),
    "buckets that are no tables": ("buckets = 3", "buckets = 3: must be tables [buckets.<name>]"),
    "a bucket that is no table": ("[buckets]\nmain = 3", "buckets.main = 3: must be a table"),
    "an unknown algorithm": ('[buckets.a]\nalgorithm = "ubm_linucb"', "did you mean ubm-linucb?"),
    "a misspelt bucket key": ("[buckets.a]\nalfa = 1", "buckets.a.alfa = '***': no such key; did you mean alpha?"),
    "no table": ('[buckets.a]\nalgorithm = "ubm-linucb"', "ubm-linucb needs a table of 12 × 12 chances"),
    "a chance above 1": ('[buckets.a]\nalgorithm = "pbm-ucb"\nexamination = [0.5, 1.5]', "examination[1] is 1.5"),
    "a ragged table": ('[buckets.a]\nalgorithm = "ubm-linucb"\nexamination = [[1], [1, 1]]', "buckets.a.examination"),
    "the other kind of table": ('[buckets.a]\nalgorithm = "ubm-linucb"\nexamination = [0.5]', "needs a table of 1 × 1"),
    "a default for no list": (
        '[buckets.a]\nalgorithm = "ubm-linucb"\nexamination = "default"\npositions = 0',
        "buckets.a.positions",
    ),
    "a lost table": ('[buckets.a]\nexamination = "lost.json"', "cannot be read as JSON"),
    "no dimension": ("[buckets.a]\ndim = 0", "buckets.a.dim = 0: must be a whole number from 1 to 4096"),
    "too many positions": (
        "[buckets.a]\npositions = 51",
        "buckets.a.positions = 51: must be a whole number from 1 to 50",
    ),
    "safe without contexts": (
        '[buckets.a]\nalgorithm = "pbm-ucb"\nexamination = [1.0]\npositions = 1\nridge = "safe"',
        "buckets.a.ridge = 'safe': must be a number above 0",
    ),
    "a negative width": ("[buckets.a]\nalpha = -0.1", "buckets.a.alpha = -0.1: must be a number at least 0"),
    "tables in tables without end": ("a = " + "[" * 30_000, "nested too deeply"),
    "a number of 5,000 digits": ("wait_s = " + "9" * 5_000, "is not TOML: Exceeds the limit"),
    "a number beyond every float": ("wait_s = 0x" + "f" * 5_000, "wait_s = a number too large to show"),
    "no name of a file": ('kafka_password_file = "\\u0000"', "cannot be read"),
    "a split that is no table": ("split = 3", "split = 3: must be a table [split]"),
    "a misspelt key of the split": ("[split]\nsallt = 's'", "split.sallt = 's': no such key; did you mean salt?"),
    "a salt that is no text": ("[split]\nsalt = 3", "split.salt = 3: must be text"),
    "a holdout of all": ("[split]\nholdout = 1.0", "split.holdout = 1.0: must be a number at least 0 and at most 0.9"),
    "a holdout without a bucket": ("[split]\nholdout = 0.1", "split.holdout_bucket = None: a holdout needs one"),
    "a holdout's bucket that is not there": (
        "[split]\nholdout_bucket = 'contrl'\n[buckets.control]",
        "split.holdout_bucket = 'contrl': no such bucket; did you mean control?",
    ),
    "sticky as text": ("[split]\nsticky = 'yes'", "split.sticky = 'yes': must be true or false"),
    "a ranking bucket that is no name": ("[split]\nsame_ranking = 1", "must be the name of a bucket"),
    "an A/A test of what cannot be ranked alike": (
        "[split]\nsame_ranking = 'a'\n[buckets.a]\n[buckets.b]\ndim = 3",
        "buckets.b.dim = 3: must be that of 'a'",
    ),
    "a negative weight": ("[buckets.a]\nweight = -1", "buckets.a.weight = -1: must be a number at least 0"),
    "nobody takes users": ("[buckets.a]\nweight = 0", "buckets.a.weight = 0: one bucket of each namespace must be"),
    "an unknown policy": ("[buckets.a]\npolicy = 'plackett'", "must be one of best, plackett-luce; did you mean"),
    "a policy for lots": (
        "[buckets.a]\nalgorithm = 'random'\npolicy = 'plackett-luce'",
        "random draws its lists already",
    ),
    "no temperature": ("[buckets.a]\ntemperature = 0", "buckets.a.temperature = 0: must be a number at least 0.0001"),
    "a shortlist too short": ("[buckets.a]\nshortlist = 5", "buckets.a.shortlist = 5: must fill a list of 12, or be 0"),
    "a bucket with a strange name": ('[buckets."@samples-0"]\n', "buckets = '@samples-0': must be made of letters"),
}


@pytest.mark.parametrize("text, said", BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_refused(tmp_path, text, said):
    with pytest.raises(SettingsError) as refused:
        load(written(tmp_path, text), environ={})
    assert said in str(refused.value)
    assert "hunter2" not in str(refused.value)


SECRETS_OUT_OF_PLACE = {
    "in an address": {"GLIMPSE_REDIS": "redis://:hunter2@cache:6379/0"},
    "in an address with a bad port": {"GLIMPSE_REDIS": "redis://:hunter2@cache:none/0"},
    "in the port's place": {"GLIMPSE_REDIS": "redis://bob:hunter2"},
    "in an address without its scheme": {"GLIMPSE_REDIS": "bob:hunter2@cache:6379"},
    "with a space and a slash": {"GLIMPSE_REDIS": "redis://:hunter2 a/b@cache:6379/0"},
    "behind the address": {"GLIMPSE_REDIS": "redis://cache:6379/0?password=hunter2"},
    "in Kafka's address": {"GLIMPSE_KAFKA": "bob:hunter2@broker:9092"},
    "in a misspelt variable": {"GLIMPSE_KAFKA_PASSWD": "hunter2"},
}


@pytest.mark.parametrize("given", SECRETS_OUT_OF_PLACE.values(), ids=SECRETS_OUT_OF_PLACE)
def test_a_secret_out_of_place_is_refused_unseen(given):
    with pytest.raises(SettingsError, match=r"\*\*\*") as refused:
        load(environ=given)
    assert "hunter2" not in str(refused.value)


def test_servers_of_up_are_found_in_its_folder_unless_others_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    UP_FOLDER.mkdir()
    write_running(UP_FOLDER, {"kafka": "127.0.0.1:21", "redis": "redis://127.0.0.1:22/0"})
    assert (load(environ={}).kafka, load(environ={}).redis) == ("127.0.0.1:21", "redis://127.0.0.1:22/0")
    assert load(environ={"GLIMPSE_KAFKA": "b:2"}).kafka == "b:2"
    assert load(written(tmp_path, 'redis = "redis://c:3/0"'), environ={}).redis == "redis://c:3/0"
    (tmp_path / "glimpse.toml").unlink()
    write_running(UP_FOLDER, None)
    assert load(environ={}) == Settings()
    (UP_FOLDER / "running.json").write_text("[" * 100_000)
    with pytest.raises(SettingsError, match="run glimpse up again"):
        load(environ={})


def test_a_secret_given_twice_is_refused_unseen(tmp_path):
    (tmp_path / "p").write_text("hunter2")
    twice = {"GLIMPSE_REDIS_PASSWORD": "hunter2", "GLIMPSE_REDIS_PASSWORD_FILE": str(tmp_path / "p")}
    with pytest.raises(SettingsError, match="given twice") as refused:
        load(environ=twice)
    assert "hunter2" not in str(refused.value)


def test_a_file_that_is_no_certificate_is_refused(tmp_path):
    (tmp_path / "ca.pem").write_text("nonsense")
    with pytest.raises(SettingsError, match=r"kafka_ca = .*PEM"):
        Settings(kafka_security="SSL", kafka_ca=str(tmp_path / "ca.pem"))


def test_a_table_survives_its_file(tmp_path):
    assert write_examination(tmp_path / "w.json", TABLE) == table_hash(TABLE)
    np.testing.assert_array_equal(read_examination(tmp_path / "w.json"), TABLE)


def test_a_table_that_was_touched_is_refused(tmp_path):
    write_examination(tmp_path / "w.json", TABLE)
    content = json.loads((tmp_path / "w.json").read_text())
    content["examination"][2][0] += 1e-9
    (tmp_path / "w.json").write_text(json.dumps(content))
    with pytest.raises(SettingsError, match="changed after it was written"):
        load(written(tmp_path, '[buckets.a]\nalgorithm = "ubm-linucb"\nexamination = "w.json"'), environ={})
