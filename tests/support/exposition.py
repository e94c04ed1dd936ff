"""A page of metrics, read by prometheus-client's own parser."""

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families


def parse(text: str) -> dict[str, Metric]:
    """Return the families of a page by the names that Prometheus knows them by."""
    families = list(text_string_to_metric_families(text))
    return {family.name + ("_total" if family.type == "counter" else ""): family for family in families}


def value(text: str, name: str, **labels: str) -> float:
    """Return the only sample with these labels; of a histogram its count, unless another part is named."""
    samples = [sample for family in parse(text).values() for sample in family.samples]
    found = [sample for sample in samples if sample.name in (name, f"{name}_count") and sample.labels == labels]
    assert len(found) == 1, (name, labels, found)
    return found[0].value
