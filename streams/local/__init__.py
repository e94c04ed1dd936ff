"""A Kafka and a Redis on this machine, for development and tests."""
