"""The paper's experiments, redone: who plays, where, and what the numbers say."""
