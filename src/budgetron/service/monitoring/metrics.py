"""Metrics for Prometheus: requests by route and status, their durations, and the state of each model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

if TYPE_CHECKING:
    from budgetron.service.consuming.consumption import Consumption
    from budgetron.service.model.served_model import ServedModel

TEXT = "text/plain; version=0.0.4; charset=utf-8"
# Bounds of the histogram of request durations: half a millisecond to ten seconds.
_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The metrics of one service. Their labels have few values: known routes, methods, statuses and models."""

    def __init__(
        self, models: Mapping[str, ServedModel], consumptions: Mapping[str, Consumption] | None = None
    ) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "budgetron_requests", "Requests answered.", ["route", "method", "status"], registry=self._registry
        )
        self._times = Histogram(
            "budgetron_request_seconds", "Seconds per request.", ["route"], buckets=_SECONDS, registry=self._registry
        )
        # (route, method, status) → the two functions to call: looking up labels for each request would take longer.
        self._bound: dict[tuple[str, str, int], tuple[Any, Any]] = {}
        self._registry.register(_Models(models, {} if consumptions is None else consumptions))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request that was answered, and its duration."""
        bound = self._bound.get((route, method, status))
        if bound is None:
            bound = self._requests.labels(route, method, str(status)).inc, self._times.labels(route).observe
            self._bound[route, method, status] = bound
        bound[0]()
        bound[1](seconds)

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


class _Models:
    """Gauges and counters of the models, computed only when Prometheus asks, so that they do not delay requests."""

    def __init__(self, models: Mapping[str, ServedModel], consumptions: Mapping[str, Consumption]) -> None:
        self._models, self._consumptions = models, consumptions

    def collect(self) -> Iterable[Any]:
        # Name of the metric → its description, and its value for m, a `ServedModel`.
        counters = {
            "predicted": ("Examples predicted.", lambda m: m.statistics.n_predicted),
            "learned": ("Examples learned.", lambda m: m.statistics.n_learned),
            "mistakes": ("Wrong predictions of examples learned.", lambda m: m.statistics.n_mistakes),
            "refused": ("Examples rejected.", lambda m: m.statistics.n_refused),
            "drift_alarms": ("Alarms that the loss has risen.", lambda m: m.statistics.alarms_after(0)[0]),
        }
        gauges = {
            "position": ("Number of the last record of the log.", lambda m: m.host.position),
            "waiting": ("Examples that wait for the writer.", lambda m: m.writer.waiting),
            "stored": ("Examples stored by the model.", lambda m: m.host.model.n_stored_ if m.hosted.is_fitted else 0),
            "memory_bytes": ("Bytes of the model.", lambda m: m.host.model.memory_bytes_ if m.hosted.is_fitted else 0),
            "writer_restarts": ("Restarts of the writer thread.", lambda m: m.writer.restarts),
            "snapshot_failing": ("1 if the last snapshot or a shard failed.", lambda m: m.host.failing is not None),
            "shards": ("Shards; 0 for a model that is not in shards.",
                       lambda m: m.host.model.shards if m.in_shards else 0),
            "shard_recoveries": ("Lost workers whose shards were assigned again.",
                                 lambda m: m.host.model.n_recoveries_ if m.in_shards and m.hosted.is_fitted else 0),
        }  # fmt: skip
        kinds: list[tuple[Any, dict[str, Any]]] = [(CounterMetricFamily, counters), (GaugeMetricFamily, gauges)]
        for kind, families in kinds:
            for name, (description, value) in families.items():
                family = kind(f"budgetron_{name}", description, labels=["model"])
                for model in list(self._models.values()):
                    family.add_metric([model.name], float(value(model)))
                yield family
        yield from self._copies()
        streams: dict[str, tuple[Any, str, Any]] = {
            "consume_lag": (GaugeMetricFamily, "Messages that wait in the stream of a broker.", lambda c: c.lag),
            "consume_rejected": (CounterMetricFamily, "Invalid messages of a stream.", lambda c: c.rejected),
        }
        for name, (kind, description, value) in streams.items():
            family = kind(f"budgetron_{name}", description, labels=["model"])
            for model_name, consumption in list(self._consumptions.items()):
                family.add_metric([model_name], float(value(consumption)))
            yield family
        yield from self._metrics_of_examples()

    def _copies(self) -> Iterable[Any]:
        copied = GaugeMetricFamily("budgetron_copied_position", "Last record in the copy.", labels=["model"])
        age = GaugeMetricFamily("budgetron_copy_age_seconds", "Seconds since the copy was complete.", labels=["model"])
        for model in list(self._models.values()):
            copier = None if model.replication is None else model.replication.replicator
            if copier is not None:
                copied.add_metric([model.name], copier.position)
                age.add_metric([model.name], copier.age)
        yield from (copied, age)

    def _metrics_of_examples(self) -> Iterable[Any]:
        """Metrics of the examples learned since the start or the last replacement of a model, and of operating points.

        Undefined metrics are left out.
        """
        names = {
            "error": "Share of wrong predictions",
            "auc": "Area under the ROC curve",
            "average_precision": "Area under the precision-recall curve",
            "precision_at_k": "Share of positives among the 100 highest scores",
            "log_loss": "Mean log loss",
            "brier": "Mean squared error of the probabilities",
        }
        figures = [(model.name, model.statistics.overall()) for model in list(self._models.values())]
        for name, description in names.items():
            text = f"{description}, of the examples learned."
            family = GaugeMetricFamily(f"budgetron_{name}", text, labels=["model"])
            for model, overall in figures:
                if (value := getattr(overall, name, None)) is not None:
                    family.add_metric([model], value)
            yield family
        served = [(model.name, model.host.model) for model in list(self._models.values())]
        points = [(name, getattr(model, "operating_point", None)) for name, model in served]
        costs = {
            "expected_cost": "Cost per example of the operating point, on the examples counted.",
            "expected_asked": "Share of examples for which the operating point asks a person.",
        }
        for name, description in costs.items():
            family = GaugeMetricFamily(f"budgetron_{name}", description, labels=["model"])
            for model, point in points:
                if point is not None and (value := getattr(point, name)) is not None:
                    family.add_metric([model], value)
            yield family
