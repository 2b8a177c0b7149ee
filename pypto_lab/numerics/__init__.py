"""Comparing values: error shapes, poison, pass-by-pass validation, first divergence."""
