"""The examples of Metarank's documentation of its events, as its users would send them."""

FIELDS = [{"name": "query", "value": "cat"}, {"name": "source", "value": "search"}]
RANKING = {
    "event": "ranking",
    "id": "81f46c34-a4bb-469c-8708-f8127cd67d27",
    "timestamp": "1599391467000",
    "user": "user1",
    "session": "session1",
    "fields": FIELDS,
    "items": [
        {"id": "item3", "fields": [{"name": "relevancy", "value": 2.0}]},
        {"id": "item1", "fields": [{"name": "relevancy", "value": 1.0}]},
        {"id": "item2", "fields": [{"name": "relevancy", "value": 0.1}]},
    ],
}
INTERACTION = {
    "event": "interaction",
    "id": "0f4c0036-04fb-4409-b2c6-7163a59f6b7d",
    "ranking": RANKING["id"],
    "timestamp": "1599391467000",
    "user": "user1",
    "session": "session1",
    "type": "purchase",
    "item": "item1",
    "fields": [{"name": "count", "value": 1}, {"name": "shipping", "value": "DHL"}],
}
ITEM = {
    "event": "item",
    "id": "81f46c34-a4bb-469c-8708-f8127cd67d27",
    "timestamp": "1599391467000",
    "item": "item1",
    "fields": [{"name": "color", "value": ["white", "black"]}, {"name": "is_cute", "value": True}],
}
