"""What the parts see of a row: scaled columns, random Fourier features, hashes."""
