"""Commands that serve models, and that check, repair and restore the data directory of a service."""
