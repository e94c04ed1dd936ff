"""Where it flows: the stages, and the jobs around them."""
