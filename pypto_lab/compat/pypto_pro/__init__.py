"""Stand-in for `pypto_pro`: present so that a file can be loaded far enough to say that it is not supported yet."""
