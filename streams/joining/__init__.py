"""What the join is made of: acceptance, clocks, open lists, commits, and its place in the Kafka job."""
