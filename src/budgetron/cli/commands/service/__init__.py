"""Commands that serve models, and look after what a service has on disk."""
