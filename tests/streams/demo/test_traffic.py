"""Simulated users against a real ranking service; what becomes of their events is for the tests with Kafka."""

import asyncio

import pytest
from ranking import Client, serving, write_npz

from streams.demo import Crowdedness, Storefront, Traffic, TrafficError, write_curves, write_shop
from streams.demo.crowd import buckets
from streams.local import free_port
from streams.rank import read_catalogue
from streams.settings import Settings

QUICK = Crowdedness(rate=60, seconds=2, think_s=0.1, delay_s=0.1, patience_s=0.5)


@pytest.fixture
def shop(tmp_path):
    write_shop(tmp_path / "shop.npz", seed=1)
    return tmp_path / "shop.npz"


@pytest.fixture
def service(tmp_path, shop):
    """A service that ranks with fresh models; its Kafka is away, so that events only wait."""
    settings = Settings(kafka=f"127.0.0.1:{free_port()}", buckets=buckets(0.3))
    with serving(settings, source=str(tmp_path), catalogue=shop) as server:
        yield server


def play(url, catalogue, how=QUICK, **options):
    users = Traffic(url, Storefront(read_catalogue(catalogue), seed=1), how, seed=1)
    asyncio.run(users.run(print, **options))
    return users


def test_users_ask_look_and_click(service, shop, tmp_path):
    users = play(service.url, shop)
    assert set(users.answers) == {"/rank: 200", "/feedback: 202"}
    assert users.answers["/rank: 200"] == len(users.visits) > 100
    assert {visit.bucket for visit in users.visits} == set(buckets(0.3))
    clicked = sum(visit.clicks for visit in users.visits)
    assert clicked <= users.clicks <= 1.2 * clicked  # some come twice
    assert "events_delivered_total 0.0" in Client(service).get("/metrics").found
    page = write_curves(tmp_path / "curves.html", users.visits).read_text(encoding="utf-8")
    assert all(f">{name}</text>" in page for name in buckets(0.3))
    assert f"{len(users.visits):,} lists" in users.line()


def test_a_service_with_another_catalogue_is_refused(service, tmp_path):
    other = write_npz(tmp_path / "other.npz")
    with pytest.raises(TrafficError, match="give both the same file"):
        play(service.url, other)


def test_a_service_that_is_not_there_is_said(shop):
    with pytest.raises(TrafficError, match=r"no ranking service at .* start one: glimpse serve --catalogue FILE"):
        play(f"http://127.0.0.1:{free_port()}", shop)
