"""Verify the files of a host at any time; repair or restore them while no process serves it."""
