"""The version, by itself: a room that wants it need not import the whole package."""

__version__ = "0.1.0"
