"""Topics in, a live page out: lag, click rates, examination, delays, snapshots, refusals and freshness."""
