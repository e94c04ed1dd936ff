"""Advice: waits by the law of delays, tables by how users browse, scales by what rounding takes."""

import json

import numpy as np
import pytest
from browsing_streams import CM_TABLE, UBM_TABLE, Browsers, K
from exposition import parse
from rich.console import Console
from typer.testing import CliRunner

from learner.click_models import UBM, GivenTable
from schemas.codec import encode
from schemas.records import Click, Impression
from streams.advise import (
    Advice,
    BrowsingAdvice,
    ListColumns,
    advice_view,
    advise_delays,
    advise_scale,
    changed_at,
    lines_of,
    window_fits,
)
from streams.advise.job import advise, show_advice
from streams.advise.job.advise import RecentLog
from streams.commands.main import cli
from streams.embedded.job import Embedded
from streams.logs import Archive, ArchiveSource, LogBlock, LogRecord, LogWriter
from streams.settings import Bucket, Settings, SettingsError

START = 1_700_000_000_000
NORMAL_95, NORMAL_999 = 1.6449, 3.0902


def lognormal(rng, many):
    return rng.lognormal(np.log(40.0), 0.8, many)


@pytest.mark.parametrize("seed", range(5))
def test_the_advised_wait_is_the_quantile_of_the_law(seed):
    delays = lognormal(np.random.default_rng(seed), 100_000)
    found = advise_delays(delays, wait_s=600, lateness_s=600)
    true_wait, true_horizon = (40 * np.exp(0.8 * z) for z in (NORMAL_95, NORMAL_999))
    assert found.wait_s == pytest.approx(true_wait, rel=0.05)
    assert found.wait_s + found.lateness_s == pytest.approx(true_horizon, rel=0.1)
    assert 0.045 < found.advised.corrected <= 0.05
    assert found.advised.lost <= 0.001
    assert found.now.corrected == np.mean(delays > 600)
    lost = [row.lost for row in found.rows]
    assert lost == sorted(lost, reverse=True)


def write_events(folder, delays, *, every_ms=100):
    """Log a list every so often, each with one click that comes after its delay, and nothing beyond the last list."""
    archive, end = Archive(folder), START + len(delays) * every_ms
    impressions, clicks = [], []
    for number, delay in enumerate(delays.tolist()):
        at = START + number * every_ms
        shown = Impression(f"i{number}", "s", "b", "u", at, np.arange(2).tobytes(), b"", 2)
        impressions.append((at, encode(shown)))
        arrives = at + round(delay * 1000)
        if arrives <= end:
            clicks.append((arrives, encode(Click(f"i{number}", "s", 1, at))))
    for topic, events in (("impressions", impressions), ("clicks", clicks)):
        archive.add_topic(topic, partitions=1)
        records = [LogRecord(offset, at, b"s", value) for offset, (at, value) in enumerate(sorted(events))]
        writer = LogWriter(archive.log(topic, 0))
        for start in range(0, len(records), 1000):
            writer.append(LogBlock.of(records[start : start + 1000]))
    return ArchiveSource(archive)


def test_waits_are_advised_from_logged_events_whose_slow_clicks_have_come(tmp_path):
    source = write_events(tmp_path, lognormal(np.random.default_rng(1), 20_000))
    settings = Settings(wait_s=300, lateness_s=300)
    found = advise(source, settings, where="logs")
    assert found.delays.wait_s == pytest.approx(40 * np.exp(0.8 * NORMAL_95), rel=0.05)
    assert found.delays.clicks == pytest.approx(20_000 - 6_000, abs=100), "the last 10 minutes are too young"
    [line] = lines_of(found)
    assert line.act
    assert "sooner" in line.text
    assert f"wait_s = {found.delays.wait_s:g}" in line.command
    recent = advise(RecentLog(source, START + 1_000_000), settings, where="logs")
    assert recent.delays.clicks == pytest.approx(4_000, abs=200)


def test_a_horizon_that_loses_clicks_is_said():
    found = advise_delays(lognormal(np.random.default_rng(1), 50_000), wait_s=60, lateness_s=30)
    [line] = lines_of(Advice("kafka", 60, 30, found))
    assert line.act
    assert "fewer clicks are lost" in line.text
    well = advise_delays(lognormal(np.random.default_rng(1), 50_000), wait_s=150, lateness_s=600)
    [line] = lines_of(Advice("kafka", 150, 600, well))
    assert not line.act


def test_a_handful_of_clicks_advises_nothing():
    assert advise_delays(np.ones(20), wait_s=1, lateness_s=1) is None
    [line] = lines_of(Advice("kafka", 1, 1, None))
    assert (line.act, "too few clicks" in line.text) == (False, True)


def test_users_who_change_from_ubm_to_cm_are_noticed_within_20_000_lists():
    users = Browsers(1)
    before, after = users.lists(22_000, UBM_TABLE), users.lists(20_000, CM_TABLE)
    assert changed_at(window_fits(before, UBM_TABLE)) is None
    fits = window_fits(ListColumns(*map(np.concatenate, zip(before, after, strict=True))), UBM_TABLE)
    changed = changed_at(fits)
    assert 22_000 < changed <= 42_000
    assert fits[-1].best == "CM"
    line = lines_of(Advice("kafka", 1, 1, None, browsing={"b": BrowsingAdvice(fits[-1], changed)}))[0]
    assert line.act
    assert line.command.startswith("glimpse fit kafka --bucket b")


def test_an_unchanged_stream_raises_no_warning_and_a_wrong_table_does():
    lists = Browsers(2).lists(25_000, UBM_TABLE)
    fits = window_fits(lists, UBM_TABLE)
    assert len(fits) == 4
    assert not any(fit.changed for fit in fits)
    assert changed_at(window_fits(lists, np.tri(K))) == 10_000


def test_a_given_table_is_kept_and_likelihoods_add_up_to_the_mean():
    lists = Browsers(3).lists(3_000, UBM_TABLE)
    given = GivenTable(UBM_TABLE).fit(lists.items, lists.clicks, sizes=lists.sizes)
    np.testing.assert_array_equal(given.examination, UBM_TABLE)
    for model in (given, UBM().fit(lists.items, lists.clicks, sizes=lists.sizes)):
        each = model.log_likelihood_per_list(lists.items, lists.clicks, sizes=lists.sizes)
        mean = model.log_likelihood(lists.items, lists.clicks, sizes=lists.sizes)
        assert each.sum() / lists.sizes.sum() == pytest.approx(mean)
    truth, found = Browsers(3).attractiveness, given.attractiveness(np.arange(300))
    assert np.corrcoef(truth, found)[0, 1] > 0.8


def test_the_loss_to_rounding_is_what_the_grid_takes():
    contexts = np.random.default_rng(1).normal(size=(500, 4)).astype(np.float32)
    weights = np.repeat([1.0, 0.5], [300, 200])
    coarse, fine = (advise_scale(contexts, weights, scale) for scale in (20_000.0, 5.0))
    weighted = contexts * weights[:, None] / 20_000
    kept = np.rint(weighted * 65536) / 65536
    assert coarse.relative == pytest.approx(np.linalg.norm(kept - weighted) / np.linalg.norm(weighted))
    assert (coarse.worth, fine.worth) == (True, False)
    assert np.abs(contexts).max() <= coarse.advised_scale <= 1.3 * np.abs(contexts).max()


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """An embedded run of a bucket with a table and contexts far below its scale."""
    folder, users = tmp_path_factory.mktemp("advised"), Browsers(4)
    settings = Settings(
        wait_s=20,
        lateness_s=20,
        buckets={"b": Bucket("b", "ubm-linucb", 2, K, UBM_TABLE, context_scale=50_000.0)},
    )
    lists = users.lists(11_000, UBM_TABLE)
    with Embedded(folder, settings, partitions=1) as loop:
        for second in range(0, 110):
            at, events = START + second * 1000, []
            for number in range(second * 100, second * 100 + 100):
                contexts = np.full((K, 2), 0.5, "<f4").tobytes()
                shown = lists.items[number].astype("<i8").tobytes()
                size = int(lists.sizes[number])
                events.append(Impression(f"i{number}", f"s{number}", "b", "u", at, shown, contexts, size))
                clicked = np.flatnonzero(lists.clicks[number]) + 1
                events += [Click(f"i{number}", f"s{number}", int(position), at) for position in clicked]
            loop.append(events, at_ms=at + 500)
            loop.step(at + 500)
        loop.step(at + 400_000)
    return folder, settings


def test_advice_on_a_directory_with_its_metrics(directory, tmp_path, capsys):
    folder, settings = directory
    file = tmp_path / "advise.prom"
    show_advice(str(folder), settings, as_json=True, metrics_file=file)
    told = json.loads(capsys.readouterr().out)
    assert told["browsing"]["b"]["changed_at"] is None
    assert told["rounding"]["b"]["worth"]
    assert told["rounding"]["b"]["advised_scale"] == 0.625
    assert [line["act"] for line in told["lines"]] == [True, True, False]
    shown = parse(file.read_text())
    assert shown["glimpse_advise_browsing_changed"].samples[0].value == 0
    assert shown["glimpse_advise_rounding_loss_ratio"].samples[0].value > 0.001
    console = Console(width=80, record=True)
    console.print(advice_view(advise(ArchiveSource(Archive(folder)), settings, where=str(folder))))
    text = console.export_text()
    assert "context_scale = 0.625" in text
    assert "added staleness" in text


def test_only_what_is_recent_is_read(directory):
    folder, settings = directory
    source = ArchiveSource(Archive(folder))
    whole, recent = (advise(logs, settings, where="logs") for logs in (source, RecentLog(source, START + 60_000)))
    assert whole.browsing["b"].newest is not None
    assert recent.browsing["b"].newest is None, "some thousand lists are too few"
    assert recent.rounding["b"].worth
    assert 500 < recent.delays.clicks < whole.delays.clicks
    assert recent.notes == []


def test_without_buckets_or_logs_the_command_says_what_it_needs(tmp_path):
    file = tmp_path / "glimpse.toml"
    file.write_text("wait_s = 5")
    result = CliRunner().invoke(cli, ["advise", str(tmp_path), "--config", str(file)])
    assert isinstance(result.exception, SettingsError)
    assert "describe at least one" in str(result.exception)
