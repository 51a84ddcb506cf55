"""Verify, repair and restore the files of a host while no process serves it."""
