"""Records of dead letters sent to where they came from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from kafka.errors import KafkaError

from schemas.records import DeadLetter
from streams.broker import await_sent, producer
from streams.logs.dead_letters import Refusal
from streams.logs.source import SourceAway
from streams.settings import Settings

AT_ONCE = 1000  # records between two looks at whether the broker took them


def resend(
    settings: Settings, refusals: Iterable[Refusal], *, held_back: Callable[[DeadLetter], str | None]
) -> Counter[str]:
    """Send the records of letters to their topics, with their keys and time stamps; return how many went to each.

    Those that ``held_back`` has a reason for are left out. Interrupted, it may be run again.
    """
    sent: Counter[str] = Counter()
    writer = producer(settings, allow_auto_create_topics=False, linger_ms=20)
    futures = []
    try:
        for refusal in refusals:
            letter = refusal.letter
            if held_back(letter) is not None:
                continue
            stamp = letter.timestamp_ms if letter.timestamp_ms >= 0 else None
            # A record without a key goes where it was; one with a key belongs where its key does now.
            partition = letter.partition if letter.key is None else None
            futures.append(writer.send(letter.topic, letter.value, letter.key, None, partition, stamp))
            sent[letter.topic] += 1
            if len(futures) >= AT_ONCE:
                await_sent(futures)
                futures.clear()
        await_sent(futures)
    except KafkaError as error:
        raise SourceAway(
            f"Kafka at {settings.kafka} took {sent.total()} records at most: {error}; run it again"
        ) from error
    finally:
        writer.close()
    return sent
