"""Commands that learn from files, and use or show the models."""
