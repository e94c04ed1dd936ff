"""A host that draws by lot and a shadow that learns from it, in a world whose truth is known."""

import numpy as np
from compared_lists import batch_of

from learner.simulate import World, browsing_table
from schemas.codec import encode
from streams.compare.job import judge_shadow
from streams.learn import PartitionLearner, SamplesPartition
from streams.logs import Archive, ArchiveSource, LogBlock, LogRecord, LogWriter
from streams.offline import ListChoice, read_own_logs
from streams.parameters import frozen_model
from streams.settings import Bucket, Settings

DIM, POSITIONS, ITEMS, A_BATCH = 6, 5, 30, 500
TABLE = browsing_table(POSITIONS)
SETTINGS = Settings(
    buckets={
        "lot": Bucket("lot", "random", DIM, POSITIONS),
        "shadow": Bucket("shadow", "ubm-linucb", DIM, POSITIONS, TABLE, alpha=0.0, weight=0.0, host="lot"),
    }
)


def judged(folder, seed, *, lists=4_000):
    """Return the shadow's result, and the CTR_sum that it truly earns once it serves."""
    rng = np.random.default_rng(seed)
    world = World.random(rng, dim=DIM, examination=TABLE, items=ITEMS, candidates=ITEMS, personal=0.0)
    items, contexts = world.visit(rng)  # an item's vector is the same for everybody
    archive, records = Archive(folder), []
    for start in range(0, lists, A_BATCH):
        chosen = np.argsort(rng.random((A_BATCH, ITEMS)), axis=1)[:, :POSITIONS]
        clicks = world.users.browse(contexts[chosen], rng)
        users, minutes = np.arange(start + 1, start + A_BATCH + 1), np.full(A_BATCH, start // A_BATCH)
        batch = batch_of("lot", users, minutes, clicks, first=start, items=items[chosen], contexts=contexts[chosen])
        records.append(LogRecord(len(records), 0, b"lot", encode(batch)))
    archive.add_topic("samples", partitions=1)
    LogWriter(archive.log("samples", 0)).append(LogBlock.of(records))
    learner = PartitionLearner(SETTINGS.buckets, SamplesPartition("samples", "t"))
    learner.apply(records)
    [snapshot] = [one for one in learner.publish(now_ms=0).snapshots if one.bucket == "shadow"]
    logs, _ = read_own_logs(ArchiveSource(archive), SETTINGS, ListChoice(buckets=("lot",)))
    found = judge_shadow(logs, snapshot, SETTINGS.buckets["shadow"], SETTINGS.buckets["lot"])
    served = contexts[frozen_model(snapshot).rank(contexts, size=POSITIONS)]
    return found, float(world.users.expected_clicks(served[None])[0])
