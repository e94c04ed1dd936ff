"""The page: who won, lag, click rates, examination, delays, snapshots, refusals and freshness, live."""
