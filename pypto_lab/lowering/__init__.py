"""The compiler's passes as a readable reference pipeline: IR to IR, one pass a file, each stage printed and checked."""

from pypto_lab.lowering.pipeline import PASSES, Lowered, Stage, lower

__all__ = ["PASSES", "Lowered", "Stage", "lower"]
