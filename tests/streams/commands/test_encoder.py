"""An encoder from the catalogue to the ranking service and its users: trained by a command that binds buckets to it."""

import numpy as np
import pytest
from ranking import Client, serving
from typer.testing import CliRunner

from learner.encoder import Encoder
from streams.commands.main import cli
from streams.settings import load

ITEMS, USERS = 60, 40


@pytest.fixture
def shop(tmp_path):
    """A catalogue with more features than a learner wants."""
    random = np.random.default_rng(0)
    np.savez(
        tmp_path / "shop.npz",
        items=np.arange(ITEMS),
        features=random.uniform(-2, 3, (ITEMS, 12)),
        users=np.array([f"u{number}" for number in range(USERS)]),
        user_features=random.uniform(0, 9, (USERS, 8)),
        recipe=np.array(["code"]),
    )
    return tmp_path / "shop.npz"


def test_what_the_command_makes_and_prints_serves_lists_of_codes(shop, tmp_path):
    out = tmp_path / "encoder.bin"
    words = [str(shop), "--out", str(out), "--pairs", "500", "--epochs", "2"]
    done = CliRunner().invoke(cli, ["encoder", "train", *words])
    assert done.exit_code == 0, done.output
    printed = "\n".join(line for line in done.stdout.splitlines() if line.startswith(("dim = ", "contexts_sha256 = ")))
    (tmp_path / "glimpse.toml").write_text(f'kafka = "127.0.0.1:1"\n[buckets.main]\npositions = 5\n{printed}\n')
    settings = load(tmp_path / "glimpse.toml", environ={})
    encoder = Encoder.from_bytes(out.read_bytes())
    assert settings.buckets["main"].contexts_sha256 == encoder.sha256()
    with serving(settings, source=str(tmp_path), catalogue=shop, encoder=out) as server:
        shown = Client(server).post("/rank", {"user": "u3"}).found
        users = ["traffic", "--catalogue", str(shop), "--encoder", str(out), "--url", server.url]
        played = CliRunner().invoke(cli, [*users, "--rate", "40", "--seconds", "1", "--lists", "1", "--delay", "0"])
        blind = CliRunner().invoke(cli, [*users[:3], "--url", server.url])
    assert (len(shown["items"]), shown["user_known"]) == (5, True)
    assert played.exit_code == 0, played.output
    assert "CTR_sum" in played.output
    assert "needs an encoder: --encoder FILE" in str(blind.exception)


def test_a_catalogue_without_users_cannot_train(tmp_path):
    np.savez(tmp_path / "shop.npz", items=np.arange(5), features=np.zeros((5, 2)), recipe=np.array(["code"]))
    done = CliRunner().invoke(cli, ["encoder", "train", str(tmp_path / "shop.npz")])
    assert "names no users" in str(done.exception)
