"""The version of kafka-python that the workarounds were written for; the package imports this module first.

Other versions lack modules that the workarounds import, so they are refused before those are imported.
"""

from __future__ import annotations

import kafka

SUPPORTED = "3.0.12"


class ClientVersionError(RuntimeError):
    """An installed kafka-python whose internals are not known here."""


def require_supported(installed: str) -> None:
    """Raise ClientVersionError for a version that nobody has tried."""
    if installed != SUPPORTED:
        raise ClientVersionError(
            f"kafka-python {installed} is installed, but the workarounds of streams/broker are for {SUPPORTED}; "
            f"install that: pip install 'kafka-python=={SUPPORTED}'"
        )


require_supported(kafka.__version__)
