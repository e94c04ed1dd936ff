"""The JSON bodies of the ranking service, what clients send and what they get, and their description as OpenAPI 3.1."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.json import schema_components

from learner.browsing import MAX_POSITIONS
from streams.events import MAX_ID_BYTES

Text = Annotated[str, Meta(max_length=MAX_ID_BYTES)]
Name = Annotated[str, Meta(min_length=1, max_length=MAX_ID_BYTES)]
Item = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Share = Annotated[float, Meta(ge=0, le=1)]
Rows = Annotated[list[list[float]], Meta(min_length=1, description="One row of numbers per item.")]


class CandidateLine(Struct):
    """One candidate of `glimpse rank`."""

    item: Item
    context: list[float] = []


class CandidatesBody(Struct, forbid_unknown_fields=True):
    """The items to choose from. Default: every item of the catalogue."""

    items: list[Item] | None = None
    contexts: Rows | None = None
    tags: dict[str, str | list[str]] | None = None
    without: list[Item] | None = None


class RankBody(Struct, forbid_unknown_fields=True):
    """A request for a list."""

    user: Name
    session: Annotated[Name | None, Meta(description="Shared by a session's lists and clicks. Default: new.")] = None
    size: Annotated[int, Meta(ge=1, description="K. Default: the bucket's.")] | None = None
    candidates: CandidatesBody | None = None
    user_features: Annotated[list[float] | None, Meta(description="Default: the catalogue's, else zeros.")] = None
    explore: Literal["on", "off"] | Share = "on"
    namespace: Annotated[Text, Meta(description="Which of the parallel experiments.")] = ""
    bucket_before: Annotated[Name | None, Meta(description="The user's last bucket, for a sticky split.")] = None

    def __post_init__(self) -> None:
        for name in ("user", "session", "namespace", "bucket_before"):
            size = len((getattr(self, name) or "").encode())
            if size > MAX_ID_BYTES:
                raise ValueError(f"{name} must be at most {MAX_ID_BYTES} bytes of UTF-8, got {size}")


class ClickBody(Struct, forbid_unknown_fields=True):
    """One click."""

    impression_id: Name
    session_id: Name
    position: Annotated[int, Meta(ge=1, le=MAX_POSITIONS)]
    clicked_at_ms: Annotated[int, Meta(ge=0, le=1 << 62, description="Default: now.")] | UnsetType = UNSET
    reward: Annotated[float, Meta(ge=0)] = 1.0
    type: Literal["click"] = "click"


class RankAnswer(Struct):
    """A list, and what its clicks must name."""

    impression_id: Annotated[str | None, Meta(description="Clicks must name it. null: the list is empty.")]
    session_id: Annotated[str | None, Meta(description="Clicks must name it.")]
    bucket: str
    split: Annotated[str, Meta(description="Version of the split of users into buckets.")]
    version: Annotated[tuple[int, int], Meta(description="Epoch and offset of the snapshot. [0, -1]: a fresh model.")]
    items: Annotated[list[int], Meta(description="From the top.")]
    propensities: Annotated[
        list[float] | None,
        Meta(description="Probability of each item at its position, given those above. null: not drawn."),
    ]
    user_known: bool
    logged: Annotated[bool, Meta(description="In Kafka or queued for it. false: it will not be logged.")] = True
    catalogue: str | UnsetType = UNSET


class RefusedEvent(Struct):
    """An event of a body that was refused."""

    index: int
    error: str


class Taken(Struct):
    """How many events were accepted, and why others were not."""

    accepted: int
    refused: int
    passed_over: Annotated[int, Meta(description="Metarank's metadata, and interactions outside of any list.")]
    errors: Annotated[list[RefusedEvent], Meta(description="The first 100.")]


class Problem(Struct):
    """Why there is no answer."""

    error: str


Schema = dict[str, Any]

POSTS: dict[str, tuple[str, Any, Any, int]] = {  # path: what it does, the body, the answer, its status
    "/rank": ("A list for one user.", RankBody | list[RankBody], RankAnswer, 200),
    "/click": ("One click.", ClickBody, Taken, 202),
    "/feedback": (
        "Impressions and clicks, also Metarank's rankings and interactions.",
        dict[str, Any] | list[dict[str, Any]],
        Taken,
        202,
    ),
}
GETS = {
    "/items": "What is held, and what ranks.",
    "/livez": "Whether the process lives.",
    "/readyz": "Whether it should get requests.",
    "/metrics": "Figures for Prometheus.",
    "/openapi.json": "This.",
}
PROBLEMS = {
    400: "What was sent cannot be used; the error says why.",
    403: "The token is missing or wrong.",
    404: "No such path, or the catalogue has no such item.",
    413: "The body is too large.",
    415: "The body is not said to be JSON.",
    503: "Kafka is away for too long, or there is too much to do: try again after a second.",
}


def openapi() -> Schema:
    """Return the description of the service."""
    types = [Problem, *(body for _, body, _, _ in POSTS.values()), *(answer for _, _, answer, _ in POSTS.values())]
    (problem, *schemas), components = schema_components(types, ref_template="#/components/schemas/{name}")
    paths: Schema = {
        path: {"get": {"summary": summary, "responses": {"200": {"description": "As asked."}}}}
        for path, summary in GETS.items()
    }
    wrong = {str(code): {"description": words, **_json(problem)} for code, words in PROBLEMS.items()}
    bodies, answers = schemas[: len(POSTS)], schemas[len(POSTS) :]
    for (path, (summary, _, _, status)), body, answer in zip(POSTS.items(), bodies, answers, strict=True):
        if path == "/rank":  # each list of an array may fail by itself
            answer = {"anyOf": [answer, {"type": "array", "items": {"anyOf": [answer, problem]}}]}
        responses = {str(status): {"description": "As asked; an array for an array.", **_json(answer)}, **wrong}
        paths[path] = {
            "post": {"summary": summary, "requestBody": {"required": True, **_json(body)}, "responses": responses}
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Glimpse", "version": "1", "description": "Ranks, and logs what was shown and clicked."},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }


def _json(schema: Schema) -> Schema:
    return {"content": {"application/json": {"schema": schema}}}
