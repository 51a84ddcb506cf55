"""Statistics of running models, for the live page (`statistics`) and Prometheus (`metrics`); slow log; traces."""
