"""What a replay is made of: ranges, parts, comparison, provenance."""
