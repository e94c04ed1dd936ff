"""Work on click logs: fit, evaluate, experiment, and the encoder."""
