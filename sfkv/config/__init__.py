"""Options and their units."""
