"""What runs in one process against a real SQLite file: contract checks and the stateful machine."""
