"""Who won, on the page: the first panel, in words, with alarms, readable on a phone."""

from compared_lists import batch_of, traffic

from schemas.codec import encode
from schemas.records import Click
from streams.dashboard.compare_panel import ComparePanel
from streams.dashboard.job.feed import State
from streams.dashboard.job.server import DashboardServer
from streams.dashboard.source import LogUpdate, WeightedRecord
from streams.logs import LogRecord
from streams.settings import Bucket, Settings

SETTINGS = Settings(
    buckets={name: Bucket(name, "c2ucb", dim=1, positions=3) for name in ("old", "a-name-that-is-long", "new")}
)
ARM = "document.querySelector('[data-arm=\"{}\"]').innerText"


def entries(*batches):
    return [WeightedRecord(0, LogRecord(k, 0, b"", encode(batch))) for k, batch in enumerate(batches)]


def page_of(lists, late=()):
    """A page on three buckets of so many lists, of which 'new' is much better."""
    chances = {"old": 0.2, "a-name-that-is-long": 0.2, "new": 0.27}
    found = {name: traffic(name, lists=lists[name], chance=chances[name], seed=1, split="") for name in lists}
    state = State(SETTINGS, source_name="a log")
    lost = [WeightedRecord(0, LogRecord(k, 0, b"", encode(click))) for k, click in enumerate(late)]
    newest = found["old"].shown_at_ms_array.max()
    state.add(LogUpdate(int(newest), {"samples": entries(*found.values()), "late-clicks": lost}))
    return state


def test_the_first_panel_says_who_won_and_fits_a_phone(browser, tmp_path):
    state = page_of(dict.fromkeys(SETTINGS.buckets, 6_500), [Click("old-1", "s", 1, 0)])
    with DashboardServer(state) as server:
        for width, phone in ((1280, False), (390, True)):
            browser.screen(width, 844, phone=phone)
            browser.open(server.url)
            browser.wait(f"{ARM.format('new')}.includes('new is ahead of old by')")
            assert browser.run("document.querySelector('main > *').contains(document.querySelector('#compare'))")
            assert "undecided" in browser.run(ARM.format("a-name-that-is-long"))
            assert "control" in browser.run(ARM.format("old"))
            assert "join rate: no bucket loses more" in browser.text("#compare")
            browser.wait(f"document.documentElement.scrollWidth <= {width}")
            every = "[...document.querySelectorAll('#compare *')].every"
            assert browser.run(f"{every}((one) => one.getBoundingClientRect().right <= innerWidth)")
            assert browser.run(f"{every}((one) => parseFloat(getComputedStyle(one).fontSize) >= 11)")
            browser.picture(tmp_path / f"compare-{width}.png")


def test_an_alarm_stands_above_the_buckets(browser):
    users = {"old": 6_500, "a-name-that-is-long": 6_500, "new": 5_500}
    batches = [traffic(name, lists=many, chance=0.2, seed=2, split="") for name, many in users.items()]
    state = State(SETTINGS, source_name="a log")
    state.add(LogUpdate(1, {"samples": entries(*batches)}))
    browser.screen(390, 844, phone=True)
    with DashboardServer(state) as server:
        browser.open(server.url)
        browser.wait("document.querySelector('#compare [role=alert]')?.innerText.startsWith('SAMPLE RATIO')")
        assert "not to be believed" in browser.run(ARM.format("new"))
        assert "join rate" not in browser.text("#compare"), "no late click was read: nothing is said of them"


def test_comparing_takes_a_small_share_of_the_time():
    now, made = [100.0], []
    panel = ComparePanel(SETTINGS, clock=lambda: now[0])
    for second in range(20):
        panel.add(batch_of("old", [second + 1], [0], [[1, 0, 0]]))
        made.append(panel.section()["rows"][0][2])
        now[0] += 1
    assert made[0] == 1
    assert sorted(set(made)) == [1, 6, 11, 16]
    assert ComparePanel(SETTINGS, clock=lambda: 0.0).section()["notes"] == ["No list has closed yet."]
