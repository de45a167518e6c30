"""Snapshots of a keyed backend: taking, storing, finding and restoring them."""
