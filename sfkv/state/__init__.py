"""What users hold: the states of a keyed backend."""
