"""splitmix64, the random number generator of the rules. Both engines implement it, so they draw the same numbers."""

from __future__ import annotations

WORD = (1 << 64) - 1


class Splitmix:
    """A generator whose state is a single 64-bit number, which starts at the seed."""

    def __init__(self, seed: int) -> None:
        self.state = seed & WORD

    def draw(self) -> int:
        """Draw 64 bits."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & WORD
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
        return z ^ (z >> 31)

    def below(self, n: int) -> int:
        """Draw a number from 0 to n − 1: the upper 64 bits of the product of n and a 64-bit draw."""
        return (self.draw() * n) >> 64

    def uniform(self) -> float:
        """Draw a number in [0, 1): the upper 53 bits of a draw, scaled."""
        return (self.draw() >> 11) * 2.0**-53
