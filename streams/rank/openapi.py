"""The ranking service's interface, as OpenAPI 3.1 tells it."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string", "maxLength": 256}
WHOLE: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}


def _list(of: Schema) -> Schema:
    return {"type": "array", "items": of}


def _object(required: list[str], properties: Schema, **more: Any) -> Schema:
    return {"type": "object", "required": required, "properties": properties, **more}


SCHEMAS: Schema = {
    "RankRequest": _object(
        ["user"],
        {
            "user": TEXT,
            "session": {**TEXT, "description": "Lists and clicks of one session share it; made up if left out."},
            "size": {**WHOLE, "minimum": 1, "description": "K; else the bucket's."},
            "candidates": _object(
                [],
                {
                    "items": _list(WHOLE),
                    "contexts": {**_list(_list(NUMBER)), "description": "A row for each item; else as held."},
                    "tags": {"type": "object", "additionalProperties": _list(TEXT)},
                    "without": _list(WHOLE),
                },
                description="Left out: every item of the catalogue.",
            ),
            "user_features": {**_list(NUMBER), "description": "Else those of the catalogue, else zeros."},
            "explore": {"oneOf": [{"enum": ["on", "off"]}, {**NUMBER, "minimum": 0, "maximum": 1}], "default": "on"},
            "namespace": {**TEXT, "description": "Which of the parallel experiments."},
            "bucket_before": {**TEXT, "description": "The bucket that the user met last, for a sticky split."},
        },
        additionalProperties=False,
    ),
    "RankAnswer": _object(
        ["impression_id", "session_id", "bucket", "version", "items"],
        {
            "impression_id": {"type": ["string", "null"], "description": "What clicks must name; null: empty list."},
            "session_id": {"type": ["string", "null"], "description": "What clicks must name, too."},
            "bucket": TEXT,
            "split": {**TEXT, "description": "Version of the split of users into buckets."},
            "version": {**_list(WHOLE), "description": "Epoch and offset of the snapshot; [0, -1] is a fresh model."},
            "catalogue": TEXT,
            "items": {**_list(WHOLE), "description": "From the top."},
            "propensities": {
                "oneOf": [_list(NUMBER), {"type": "null"}],
                "description": "The chance of each item to be drawn there, given those above; null: not drawn.",
            },
            "user_known": {"type": "boolean"},
            "logged": {"type": "boolean", "description": "Written to Kafka, or waits to be; false: it will not be."},
        },
    ),
    "Click": _object(
        ["impression_id", "session_id", "position"],
        {
            "impression_id": TEXT,
            "session_id": TEXT,
            "position": {**WHOLE, "minimum": 1},
            "clicked_at_ms": {**WHOLE, "description": "Now, if left out."},
            "reward": {**NUMBER, "minimum": 0, "default": 1},
        },
    ),
    "Taken": _object(
        ["accepted"],
        {
            "accepted": WHOLE,
            "refused": WHOLE,
            "passed_over": {**WHOLE, "description": "Metarank's metadata, and interactions outside of any list."},
            "errors": _list(_object(["index", "error"], {"index": WHOLE, "error": {"type": "string"}})),
        },
    ),
    "Problem": _object(["error"], {"error": {"type": "string"}}),
}


POSTS = {  # path: what it does, the body, the answer, its status
    "/rank": ("A list for one user.", "RankRequest", "RankAnswer", 200),
    "/click": ("One click.", "Click", "Taken", 202),
    "/feedback": ("Impressions and clicks, also Metarank's rankings and interactions.", None, "Taken", 202),
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
    paths: Schema = {
        path: {"get": {"summary": words, "responses": {"200": {"description": "As asked."}}}}
        for path, words in GETS.items()
    }
    for path, (words, body, result, status) in POSTS.items():
        paths[path] = {"post": {"summary": words, "requestBody": _body(body), "responses": _responses(result, status)}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Glimpse", "version": "1", "description": "Ranks, and logs what was shown and clicked."},
        "paths": paths,
        "components": {"schemas": SCHEMAS, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }


def _body(name: str | None) -> Schema:
    one = {"type": "object"} if name is None else {"$ref": f"#/components/schemas/{name}"}
    found = one if name == "Click" else {"oneOf": [one, _list(one)]}
    return {"required": True, "content": {"application/json": {"schema": found}}}


def _responses(name: str, status: int) -> Schema:
    one = {"$ref": f"#/components/schemas/{name}"}
    found = (
        {"oneOf": [one, _list({"oneOf": [one, {"$ref": "#/components/schemas/Problem"}]})]} if status == 200 else one
    )
    wrong = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        str(status): {
            "description": "As asked; an array for an array.",
            "content": {"application/json": {"schema": found}},
        },
        **{str(code): {"description": words, "content": wrong} for code, words in PROBLEMS.items()},
    }
