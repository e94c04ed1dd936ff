"""What one partition's replay has learned so far, and the file that it goes on from."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from learner import Bandit
from schemas.json_text import parse_json
from schemas.records import SampleBatch, StateArray
from streams.join import Commit, Ledger
from streams.learn import learn_lists
from streams.logs import replace_file
from streams.replay.plan import ReplayError, ReplayPlan
from streams.settings import Bucket


@dataclass(slots=True)
class Part:
    """What one partition has given so far."""

    models: dict[str, Bandit]
    passed: int = 0  # offsets
    lists: int = 0
    rows: int = 0
    refused: int = 0
    reason: str = ""  # of the first refusal
    next_offset: int | None = None
    commit: Commit | None = None
    ledger: Ledger = field(default_factory=Ledger)
    done: bool = False

    def learn(self, batch: SampleBatch, buckets: Mapping[str, Bucket]) -> None:
        """Learn a batch in its bucket, unless that is left out, and in its shadows.

        Lists that do not fit are refused, as the learner does live; what a shadow refuses is not counted, as there.
        """
        for name, model in self.models.items():
            if buckets[name].host == batch.bucket:
                learn_lists(model, batch)
        own = self.models.get(batch.bucket)
        if own is None:
            return
        dim = buckets[batch.bucket].dim
        if batch.dim != dim and own.dim:
            self.refuse(f"contexts have {batch.dim} features, bucket {batch.bucket!r} has {dim}")
            return
        refused = learn_lists(own, batch)
        for reason in refused.values():
            self.refuse(reason)
        learned = np.ones(len(batch.impression_ids), np.bool_)
        learned[list(refused)] = False
        self.lists += int(batch.signs_array[learned].sum())
        self.rows += int(batch.sizes_array[learned].sum())

    def refuse(self, reason: str) -> None:
        """Count something that could not be learned."""
        self.refused += 1
        self.reason = self.reason or reason

    def save(self, path: Path, fingerprint: str) -> None:
        """Write the part as a whole, to go on from it."""
        content: dict[str, Any] = {"fingerprint": fingerprint, "ledger": asdict(self.ledger)}
        for name in ("passed", "lists", "rows", "refused", "reason", "next_offset", "done"):
            content[name] = getattr(self, name)
        content["commit"] = None if self.commit is None else self.commit.encode(most_bytes=1 << 30)
        content["models"] = {bucket: _state(model) for bucket, model in self.models.items()}
        replace_file(path, json.dumps(content).encode())

    @classmethod
    def load(cls, path: Path, plan: ReplayPlan) -> Part:
        """Return the part as it was saved, or a new one."""
        part = cls({name: bucket.model() for name, bucket in plan.buckets.items()})
        try:
            content = parse_json(path.read_bytes())
            if content.pop("fingerprint") != plan.fingerprint:
                raise ReplayError(
                    f"{path} is of another replay (of another source, range or parameters); delete it to begin anew"
                )
            for bucket, state in content.pop("models").items():
                part.models[bucket].restore({name: _array(entry) for name, entry in state.items()})
            part.ledger = Ledger(**content.pop("ledger"))
            commit = content.pop("commit")
            part.commit = None if commit is None else Commit.decode(tuple(commit[0]), tuple(commit[1]))[0]
            for name, value in content.items():
                setattr(part, name, value)
        except FileNotFoundError:
            return part
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, ReplayError):
                raise
            raise ReplayError(f"{path} cannot be read ({error}); delete it to begin anew") from error
        return part


def _state(model: Bandit) -> dict[str, list[Any]]:
    parts = [StateArray.of(name, array) for name, array in model.state().items()]
    return {part.name: [part.dtype, part.shape, base64.b64encode(part.data).decode()] for part in parts}


def _array(entry: list[Any]) -> Any:
    dtype, shape, data = entry
    return np.frombuffer(base64.b64decode(data), dtype).reshape(shape)
