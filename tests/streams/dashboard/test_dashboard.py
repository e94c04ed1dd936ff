"""The page in a real browser, on a real broker: live, chosen, opened, dark, narrow and large."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
from shown import CARD, CLICKED_ONCE, K, Writer, batch, buckets, impression, now_ms, snapshot

from schemas.codec import encode
from schemas.records import Click, DeadLetter
from streams.broker.topics import admin
from streams.dashboard.job import of_archive, of_kafka
from streams.embedded.job import Embedded
from streams.settings import Settings


def test_the_page_follows_the_log(browser, settings_for):
    settings = settings_for(buckets=buckets(3), partitions=2, wait_s=5, lateness_s=5)
    writer, start = Writer(settings), now_ms()
    for number in range(20):
        writer.lists("b00", CLICKED_ONCE, start - 60_000 - number * 5_000)
    writer.lists("b01", [[1, 1] + [0] * (K - 2)], start - 60_000, partition=1)
    writer.put("parameters", snapshot(settings.buckets["b00"], offset=20, at_ms=start), start)
    click = Click("i9", "s9", 14, start)
    reason = "position 14 is beyond the list of 6; <b>check</b> the producer's K"
    writer.put("dead_letters", DeadLetter("clicks", 1, 77, start, b"s9", encode(click), reason), start)
    writer.done()
    browser.forget()
    with of_kafka(settings) as page:
        browser.screen(1280, 900)
        browser.open(page.url)
        browser.wait(f"{CARD.format('b00')}.includes('80 lists')")
        assert "\n1 · set 100" in browser.run(CARD.format("b00"))
        assert "\n2 · set 100" in browser.run(CARD.format("b01"))
        assert browser.text("#status").startswith("● Live")
        assert "1.20" in browser.text("#snapshots")

        # news arrives by itself, and a correction changes the rate of its own time
        old, new = [0] * K, [0, 0, 1] + [0] * (K - 3)
        writer.lists("b02", [old] * 4, start - 90_000)
        writer.put("samples", batch("b02", [old, new], start - 90_000, signs=[-1, 1]), now_ms())
        writer.done()
        browser.wait(f"{CARD.format('b02')}.includes('4 lists') && {CARD.format('b02')}.includes('0.25')")

        # lag of groups that never ran
        browser.wait("document.querySelector('[data-group=learn]')?.innerText.includes('never committed')")

        # a bucket is chosen: its own table, or the words that it has none
        assert browser.wait("document.querySelectorAll('#heat rect').length") == K * (K + 1) // 2
        browser.click('[data-bucket="b01"]')
        browser.wait("document.querySelector('#chosen').innerText.includes('Bucket b01')")
        browser.wait("document.querySelector('#chosen').innerText.includes('no examination table')")
        assert browser.run("document.querySelector('#heat-panel').hidden")
        assert "θᵀx" not in browser.text("#positions-note").replace("w·θᵀx", "")  # it has no snapshot yet
        browser.wait("document.querySelectorAll('#positions rect.bar').length === 6")
        assert browser.run("location.hash").find("bucket=b01") > 0

        # a dead letter is opened: its reason as text, its fields, its bytes
        browser.click(".reason")
        browser.wait("document.querySelector('dialog').open && document.querySelector('pre.hex')")
        assert reason in browser.text("dialog .record")
        assert "position: 14" in browser.text("dialog .decoded")
        assert browser.text("dialog .hex").replace(" ", "").find(encode(click)[:8].hex()) > 0
        browser.click("dialog .close")
        browser.wait("!document.querySelector('dialog').open")

        # dark, and narrow
        light = browser.run("getComputedStyle(document.body).backgroundColor")
        browser.screen(390, 844, dark=True, phone=True)
        browser.wait(f"getComputedStyle(document.body).backgroundColor !== '{light}'")
        browser.wait("document.documentElement.scrollWidth <= 390")
        browser.wait("document.querySelector('#ctr-sum svg').getBoundingClientRect().right <= 390")

        # nobody's group was joined and none was made
        with admin(settings) as client:
            groups = {group["group_id"] for group in client.list_groups()}
        assert not [group for group in groups if "dashboard" in group or group.startswith(settings.topic_prefix)]
    assert browser.complaints == []
    assert {url.partition("?")[0].rpartition("/")[0] for url in browser.requests} <= {
        page.url.rstrip("/"),
        f"{page.url}letters",
        "about:blank",
        "",
    }


def test_a_publish_delay_of_30_s_shows_as_30_s(browser, settings_for):
    settings = settings_for(buckets=buckets(1), partitions=1, wait_s=5, lateness_s=5)
    writer, start = Writer(settings), now_ms() - 90_000  # of the two minutes that a page reads back
    bucket = settings.buckets["b00"]
    for number in range(5):
        at = start + number * 1000
        name = f"b00-{at}-0"
        writer.put("impressions", impression(name, "b00", at), at)
        writer.put("clicks", Click(name, f"s-{name}", 1, at + 500), at + 500)
        writer.lists("b00", [[1] + [0] * (K - 1)], at)  # joined half a second before the click: no longer than nothing
    writer.put("samples", batch("b00", [[1] + [0] * (K - 1)], start, ids=[f"b00-{start}-0"]), start + 10_000)
    writer.put("parameters", snapshot(bucket, offset=0, at_ms=start - 1000), start - 1000)
    # learned 2 s after it was joined, stamped by the log 30 s later, and first used 1 s after that
    writer.put("parameters", snapshot(bucket, offset=6, at_ms=start + 12_000), start + 42_000)
    writer.put("impressions", impression("after", "b00", start + 43_000, ranked_by=(1, 6)), start + 43_000)
    writer.put("impressions", impression("stale", "b00", start + 60_000, ranked_by=(1, 0)), start + 60_000)
    writer.done()
    with of_kafka(settings) as page:
        browser.screen(1280, 900)
        browser.open(page.url)
        browser.wait("Number.parseFloat(document.querySelector('#fresh tbody td:nth-child(2)').innerText)")
        cells = browser.run("[...document.querySelectorAll('#fresh tbody td')].map((cell) => cell.innerText)")
    in_all, *stages = (float(cells[column].split()[0]) for column in (1, 6, 7, 8, 9))
    joined, learned, published, served = stages
    assert joined == pytest.approx(9.5, abs=0.1)
    assert learned == pytest.approx(2, abs=0.1)
    assert published == pytest.approx(30, abs=1)
    assert served == pytest.approx(1, abs=0.1)
    assert in_all == pytest.approx(42.5, abs=1)
    assert cells[3].startswith("50")  # of the two lists that a model has ranked, one was ranked by an old one


def test_50_buckets_and_64_partitions_stay_readable_and_cheap(browser, settings_for, tmp_path):
    known = buckets(50)
    settings = settings_for(buckets=known, partitions=64, wait_s=5, lateness_s=5)
    writer, random = Writer(settings), np.random.default_rng(2)
    start = now_ms()
    for number, name in enumerate(known):
        for back in range(0, 1_500_000, 60_000):
            clicks = (random.random((8, K)) < 0.15).astype(float)
            writer.lists(name, clicks, start - 10_000 - back, partition=number % 64)
        writer.put("parameters", snapshot(known[name], offset=25, at_ms=start), start)
    writer.done()
    toml = [f'kafka = "{settings.kafka}"', f'topic_prefix = "{settings.topic_prefix}"', "wait_s = 5", "lateness_s = 5"]
    toml += [f'[buckets.{name}]\nalgorithm = "c2ucb"\ndim = 4\npositions = {K}' for name in known]
    config = tmp_path / "glimpse.toml"
    config.write_text("\n".join(toml))
    command = [sys.executable, "-m", "streams.cli", "dashboard", "--port", "0", "--config", str(config)]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        url = server.stderr.readline().split()[1]
        browser.screen(1280, 900)
        browser.open(url)
        browser.wait("document.querySelectorAll('.card').length === 50")
        browser.wait("document.querySelector('[data-bucket=b49] .lists').textContent.includes('200')", within_s=60)
        browser.wait("document.querySelectorAll('[data-group=join] .tiles button').length === 128", within_s=60)
        browser.wait("document.querySelectorAll('[data-group=learn] .tiles button').length === 64")
        updates = "Number(document.body.dataset.updates)"
        process, began, before = psutil.Process(server.pid), time.monotonic(), browser.run(updates)
        used, second = sum(process.cpu_times()[:2]), 0
        while time.monotonic() < began + 12 or browser.run(updates) < before + 6:  # a pause alone would cost nothing
            for number in range(0, 50, 2):
                writer.lists(f"b{number:02}", CLICKED_ONCE, now_ms(), partition=number)
                place = impression(f"n{second}-{number}", f"b{number:02}", now_ms())
                writer.put("impressions", place, now_ms(), partition=number)
            writer.done()
            time.sleep(1)
            second += 1
            assert second < 120, "fewer than 6 updates in 120 s"  # the page is slower where its work takes more CPU
        share = (sum(process.cpu_times()[:2]) - used) / (time.monotonic() - began)
        many = browser.run(updates) - before
        browser.wait("parseInt(document.querySelector('[data-bucket=b00] .lists').textContent) > 200")
        for width in (1280, 390):
            browser.screen(width, 900, phone=width < 600)
            browser.wait(f"document.documentElement.scrollWidth <= {width}")
            small = browser.run(
                "[...document.querySelectorAll('.card, .tiles button, td, th')].filter((one) => one.innerText && "
                "parseFloat(getComputedStyle(one).fontSize) < 10).length"
            )
            assert small == 0
        browser.run("document.querySelector('#filter').value = 'b4'")
        browser.run("document.querySelector('#filter').dispatchEvent(new Event('input'))")
        assert browser.run("document.querySelectorAll('.card').length") == 10
        print(f"dashboard_cpu_share {share:.4f} of a core, {many} updates in {second} s")
        assert 0.002 < share < 0.05
    finally:
        server.terminate()
        assert server.wait(20) == 0


def test_an_embedded_directory_is_shown_and_followed(browser, tmp_path):
    settings = Settings(buckets=buckets(2), wait_s=60, lateness_s=60)
    start = now_ms() - 3_600_000
    with Embedded(tmp_path, settings) as loop:

        def play(first, many):
            shown = [impression(f"i{number}", "b00", start + number * 1000) for number in range(first, first + many)]
            clicks = [Click(one.impression_id, one.session_id, 2, one.shown_at_ms + 400) for one in shown[::2]]
            for event in [*shown, *clicks]:
                loop.append([event], at_ms=start + first * 1000)
            loop.append([impression(f"stray{first}", "nobody's", start)], at_ms=start + first * 1000)
            loop.step(now_ms=start + (first + many) * 1000 + 70_000)

        play(0, 10)
        with of_archive(settings, tmp_path) as page:
            browser.screen(390, 844, phone=True)
            browser.open(page.url + "#window=all")
            browser.wait(f"{CARD.format('b00')}.includes('10 lists') && {CARD.format('b00')}.includes('0.5')")
            browser.wait("document.querySelector('#snapshots tbody tr')?.innerText.startsWith('b00')")
            assert "An archive has no consumers" in browser.text("#lag")
            assert "unknown bucket" in browser.text("#letters")
            assert browser.run("document.querySelector('#notice').hidden")
            play(200, 5)
            browser.wait(f"{CARD.format('b00')}.includes('15 lists')")
            browser.wait("document.querySelector('#snapshots tbody tr').cells[3].innerText === '15'")
