"""The page: lag, click rates, examination, delays, snapshots, refusals and freshness, live."""
