"""Stand-ins for pypto, pypto_pro and golden, importable only while a user's file or cell runs."""

from pypto_lab.compat.loader import load_module, run_main, stand_ins

__all__ = ["load_module", "run_main", "stand_ins"]
