"""What each operation means: one record an op."""
