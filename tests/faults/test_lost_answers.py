"""A commit whose request or answer is lost, on real Kafka: nothing is reread, nothing is written twice."""

import pytest
from lost_answers import lose_commits


@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
@pytest.mark.timeout(800)
def test_a_commit_that_got_lost_is_found_or_sent_again_without_rereading(new_broker, settings_for, caplog, client):
    lose_commits(new_broker, settings_for, caplog, kafka_client=client, losses=["answer", "request"])
