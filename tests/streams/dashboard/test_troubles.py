"""The page in a real browser when something is wrong with the broker, and when it is right again."""

from __future__ import annotations

import os
from contextlib import ExitStack

from by_hand import commit, denied, join_commit
from kafka.admin import ACLOperation, ResourceType
from shown import CARD, CLICKED_ONCE, K, Writer, buckets, now_ms

from streams.broker import create_topics
from streams.dashboard.job import of_kafka
from streams.dashboard.job.run import SLOWEST_LAG_S
from streams.settings import Settings, Topics

LAG_S = SLOWEST_LAG_S + 30  # the page asks for lag seldom when a look is dear, as all are on a busy machine


def test_an_outage_is_shown_and_ends_by_itself(browser, new_broker, settings_for):
    broker = new_broker()
    settings = settings_for(kafka=broker.bootstrap, buckets=buckets(1), partitions=1)
    with of_kafka(settings) as page:
        browser.open(page.url)
        browser.wait("document.querySelector('#status').innerText.startsWith('● Live')")
        broker.kill()
        browser.wait("!document.querySelector('#notice').hidden", within_s=60)
        assert "cannot be read" in browser.text("#notice")
        assert browser.text("#status") == "✕ Log away"
        broker.start()
        writer = Writer(settings)
        writer.lists("b00", CLICKED_ONCE, now_ms() - 1_000)
        writer.done()
        browser.wait(f"{CARD.format('b00')}.includes('4 lists')", within_s=60)
        assert browser.run("document.querySelector('#notice').hidden")


def test_missing_topics_are_named_and_found_when_they_come(browser, settings_for, kafka):
    settings = Settings(kafka=kafka, topic_prefix=f"missing-{os.getpid()}-", buckets=buckets(1), partitions=1)
    with of_kafka(settings) as page:
        browser.open(page.url)
        browser.wait("document.querySelector('#notice').innerText.includes('glimpse topics')")
        create_topics(settings)
        browser.wait("document.querySelector('#notice').hidden", within_s=60)


def test_a_refused_topic_is_named_the_others_go_on_and_rights_are_noticed(browser, settings_for, strict_broker):
    settings = settings_for(kafka=strict_broker.bootstrap, buckets=buckets(1), partitions=1)
    writer, names = Writer(settings), Topics.of(settings)
    writer.lists("b00", CLICKED_ONCE, now_ms() - 5_000)
    writer.done()
    with of_kafka(settings) as page:
        browser.screen(1280, 900)
        browser.open(page.url)
        browser.wait(f"{CARD.format('b00')}.includes('4 lists')")
        browser.wait("document.querySelector('[data-group=learn]')", within_s=60)
        with ExitStack() as rights:
            rights.enter_context(denied(settings, ResourceType.TOPIC, names.dead_letters, ACLOperation.DESCRIBE))
            rights.enter_context(denied(settings, ResourceType.TOPIC, names.samples, ACLOperation.READ))
            writer.lists("b00", CLICKED_ONCE, now_ms())  # the broker must refuse to read it, not the page to ask
            writer.lists("b00", [[0] * K], now_ms())
            writer.done()
            both = f"Kafka does not let this user read {names.samples}, {names.dead_letters}; give READ and DESCRIBE"
            browser.wait(f"document.querySelector('#notice').innerText.startsWith('{both}')", within_s=90)
            assert browser.text("#status").startswith("✕ Reading refused")
            before = browser.run("document.body.dataset.updates")
            browser.wait(f"Number(document.body.dataset.updates) > {before} + 1")  # alive, with what may be read
            refused = "does not let this user look: .*no READ or no DESCRIBE on"
            browser.wait(f"document.querySelector('#lag-trouble').innerText.match(/{refused}/)", within_s=LAG_S)
            assert "4 lists" in browser.run(CARD.format("b00"))
        browser.wait("document.querySelector('#status').innerText.startsWith('● Live')", within_s=60)
        browser.wait(f"{CARD.format('b00')}.includes('9 lists')")  # each once, those of the dark time too
        browser.wait("document.querySelector('#lag-trouble').hidden", within_s=LAG_S)
        assert browser.run("document.querySelector('#notice').hidden")


def test_garbage_in_a_commit_is_shown_and_forgotten_when_it_is_gone(browser, settings_for):
    settings = settings_for(buckets=buckets(1), partitions=1)
    topic, group = Topics.of(settings).impressions, settings.topic_prefix + "glimpse-join"
    garbage = "\x00<img src=x onerror=alert(1)>{"
    commit(settings, group, topic, 0, garbage)
    row = f"document.querySelector('[data-key=\"join {topic} 0\"]')?.innerText"
    why = f"(document.querySelector('[data-why=\"join {topic} 0\"]')?.innerText ?? '')"
    with of_kafka(settings) as page:
        browser.screen(1280, 900)
        browser.open(page.url)
        browser.wait(f"{why}.includes('<img src=x') && {why}.includes(\"not the join's notes\")", within_s=LAG_S)
        assert settings.topic_prefix not in browser.text("#lag")
        join_commit(settings, position=0)
        browser.wait(f"{row}.includes('OK') && !{why}.includes('<img')", within_s=LAG_S)
