"""The version, in a module of its own, so that reading it does not import the whole package."""

__version__ = "0.2.0"
