"""Statistics of running models for the live page (`statistics`), metrics for Prometheus, the slow log, and traces."""
