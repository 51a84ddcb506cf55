"""The version of the package. It has its own module, so that reading it does not import the whole package."""

__version__ = "0.2.0"
