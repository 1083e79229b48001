"""What needs real processes: they are killed, and a fresh connection looks at what they left."""
