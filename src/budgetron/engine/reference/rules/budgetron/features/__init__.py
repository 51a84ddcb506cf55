"""The features that parts compute from a row: scaled columns, random Fourier features, hashes."""
