"""What `glimpse lag` is made of: looks at the broker, counts, verdicts, views."""
