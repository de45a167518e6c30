"""Backends: where a keyed backend's rows live, and what is shared between several."""
