"""Where settings come from, and how their values are checked."""
