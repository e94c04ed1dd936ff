"""Relearning from an archive: the deployed settings give the same bits again, others what would have been learned.

    glimpse archive topics/                              # Kafka to files
    python examples/replay.py topics/ glimpse.toml       # no server is needed from here on

The outcome is compared with the archive's own snapshots. A replay closes the lists that were still open when the
archive was made, so while users come it has some lists more.
"""

import sys
from pathlib import Path

from streams.logs.job import open_source
from streams.replay import compare, live_snapshots, plan_of, snapshots_in
from streams.replay.job import replay
from streams.settings import load


def main(archive: str, config: str) -> None:
    """Replay ``archive`` with the settings of ``config``, then with another algorithm."""
    settings = load(Path(config))
    source = open_source(archive, settings)
    published = live_snapshots(source) or snapshots_in(Path(archive) / "snapshots", settings.buckets)

    plan, notes = plan_of(source, settings)  # events if they are there, else samples; every bucket, the whole range
    print(*notes, sep="\n", end="\n" if notes else "")
    done = replay(plan)
    print(f"{done.lists:,} lists relearned from {' and '.join(plan.topics)} in {done.seconds:.1f} s")
    for bucket, model in sorted(done.models.items()):
        print(f"{bucket:<10} {model.name:<11} {model.rounds} lists, state {model.sha256()[:12]}")
    for comparison in compare(done.models, published):
        print(comparison)

    print("The same log, learned by c2ucb:")
    plan, _ = plan_of(source, settings, changes={"algorithm": "c2ucb", "examination": None})
    for comparison in compare(replay(plan).models, published):
        print(comparison)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python examples/replay.py ARCHIVE GLIMPSE_TOML")
    main(*sys.argv[1:])
