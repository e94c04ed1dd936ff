"""The ranking endpoint as one writes it by hand: FastAPI, numpy, and kafka-python for the log.

Run by tests/bench/serve.py: ``uvicorn by_hand_service:app``, with the files and the broker in the environment.
"""

import json
import os
import time
import uuid

import numpy as np
from fastapi import FastAPI
from kafka import KafkaProducer
from pydantic import BaseModel

shop = np.load(os.environ["SHOP"])
model = np.load(os.environ["MODEL"])
items, theta, inverse, alpha = shop["items"], model["theta"], model["inverse"], float(model["alpha"])
contexts = np.hstack([np.ones((len(items), 1)), shop["features"]]).astype(np.float64)
producer = KafkaProducer(bootstrap_servers=os.environ["KAFKA"], acks="all", linger_ms=5)
app = FastAPI()


class Wanted(BaseModel):
    """Who is to see a list, and how long."""

    user: str
    session: str
    size: int = 12


class Shown(BaseModel):
    """The list."""

    impression_id: str
    items: list[int]


@app.post("/rank")
async def rank(wanted: Wanted) -> Shown:
    """Return the items with the largest upper confidence bounds, and log them."""
    widths = np.sqrt(((contexts @ inverse) * contexts).sum(axis=1))
    scores = contexts @ theta + alpha * widths
    best = np.argpartition(-scores, wanted.size)[: wanted.size]
    best = best[np.argsort(-scores[best])]
    shown = Shown(impression_id=uuid.uuid4().hex, items=items[best].tolist())
    logged = shown.model_dump() | {"user": wanted.user, "at": time.time(), "contexts": contexts[best].tolist()}
    producer.send("by-hand", json.dumps(logged).encode(), key=wanted.session.encode())
    return shown
