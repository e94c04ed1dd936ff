"""What may be wrong with snapshots."""


class Hopeless(Exception):
    """Somebody must decide what to do: trying again changes nothing."""


class SnapshotCorrupt(Hopeless, ValueError):
    """A snapshot whose bytes do not give the state that its checksum promises."""


class ConfigChanged(Hopeless, ValueError):
    """A bucket whose settings are not those of its newest snapshot."""


class SnapshotMissing(Hopeless, LookupError):
    """No snapshot where one was looked for."""
