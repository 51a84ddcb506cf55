"""Statistics of running models: for the live page (`statistics`) and for Prometheus (`metrics`)."""
