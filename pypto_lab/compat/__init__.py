"""Stand-ins for pypto, pypto_pro and golden, importable only while a user's file or cell runs."""
