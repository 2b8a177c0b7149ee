"""Diagnostic codes of the dump reader: errors E7xx, and the notes N3xx on what it keeps without knowing it."""

from __future__ import annotations

from pypto_lab.ir.codes import Code

_ENTRIES = (
    Code(
        "E701",
        "the text cannot be parsed",
        "A dump is Python text; this one is cut off, damaged, or something else. Other parts of it are still read.",
        "y: pl.Tile[[16, 64], pl.FP32 = pl.tile.abs(x)",
        "y: pl.Tile[[16, 64], pl.FP32] = pl.tile.abs(x)",
    ),
    Code(
        "E702",
        "no program",
        "The text holds no class decorated with `@pl.program`, or one without functions.",
        "import pypto.language as pl",
        "@pl.program\nclass Program:\n    @pl.function(type=pl.FunctionType.InCore)\n    def main(...): ...",
    ),
    Code("E703", "nested too deeply", "The reader stops at a depth no compiler writes.", "((((((...))))))", "x"),
    Code(
        "E704",
        "two programs",
        "A dump holds one program.",
        "@pl.program\nclass A: ...\n\n@pl.program\nclass B: ...",
        "@pl.program\nclass A: ...",
    ),
    Code(
        "E705",
        "function without @pl.function",
        "Every function of a program states its type in its decorator.",
        "def main(self): ...",
        "@pl.function(type=pl.FunctionType.InCore)\ndef main(self): ...",
    ),
    Code(
        "E710",
        "statement outside a dump's language",
        "Dumps hold assignments, calls, loops, branches, scopes, yields and returns, each in the compiler's own form.",
        "while n < 4:",
        "for (i,) in pl.while_(init_values=(0,)):\n    pl.cond(i < 4)",
    ),
    Code(
        "E711",
        "expression outside a dump's language",
        "Dumps hold names, numbers, scalar operators, and calls of operations and functions.",
        "y: pl.Scalar[pl.INDEX] = lambda: 1",
        "y: pl.Scalar[pl.INDEX] = n + 1",
    ),
    Code(
        "E721",
        "not a type",
        "The annotation is no type of the language, or lacks a part.",
        "y: pl.Tile[16, pl.FP32]",
        "y: pl.Tile[[16, 64], pl.FP32]",
    ),
    Code(
        "E722", "parameter form", "Parameters are plain: no `*`, no keyword-only ones.", "def f(*x):", "def f(x: ...):"
    ),
    Code(
        "E723",
        "parameter named twice",
        "Parameters have names of their own.",
        "def f(x: T, x: T):",
        "def f(x: T, y: T):",
    ),
    Code(
        "E724",
        "parameter without a type",
        "Every parameter but `self` states its type.",
        "def f(x):",
        "def f(x: pl.Tensor[[16, 64], pl.FP32]):",
    ),
    Code("E731", "undefined name", "Nothing before this use defines the name.", "pl.tile.abs(y)", "pl.tile.abs(x)"),
    Code("E732", "unknown function", "The program has no function of this name.", "self.mian(x)", "self.main(x)"),
    Code(
        "E733",
        "arguments of a call",
        "A function takes as many arguments as parameters.",
        "self.main(x)",
        "self.main(x, y)",
    ),
    Code(
        "E734",
        "function defined twice",
        "Functions of a program have names of their own.",
        "def f ... def f",
        "def f ... def g",
    ),
    Code(
        "N301",
        "unknown operation",
        "The operation is newer than the lab, or misspelled. It is kept as it stands and printed again.",
        "pl.tile.nonexist(x)",
        "pl.tile.exp(x)",
        52,
    ),
    Code(
        "N302",
        "unknown keyword",
        "The keyword is newer than the lab. It is kept and printed again.",
        "pl.tile.exp(x, fast=1)",
        "pl.tile.exp(x)",
        52,
    ),
    Code(
        "N303",
        "unknown attribute",
        "The attribute is newer than the lab. It is kept and printed again.",
        'pl.func_attr({"newer": 1})',
        'pl.func_attr({"split": pl.SplitMode.UP_DOWN})',
        52,
    ),
    Code(
        "N304",
        "older loop form",
        "The loop has a keyword that the language no longer has; it is kept.",
        "for i in pl.parallel(0, 16, 1, chunk=4):",
        "for i in pl.parallel(0, 16, 1):",
    ),
    Code(
        "N305",
        "older memory reference",
        "The memory reference has the form of an older compiler; it is kept.",
        "pl.MemRef(pl.MemorySpace.Vec, 128, 2048, 7)",
        "pl.MemRef(mem_vec_0, 128, 2048)",
    ),
    Code(
        "N306",
        "free variable",
        "The compiler's printer did not find the variable's definition and marked the use. It is tied to the variable "
        "it stands for where that can be told.",
        "y = pl.tile.abs(x__FREE_VAR)",
        "y = pl.tile.abs(x)",
        52,
    ),
    Code(
        "N307",
        "older scope",
        "The scope has the form of an older compiler; it is read as its successor.",
        "with pl.auto_incore():",
        "with pl.at(level=pl.Level.CORE_GROUP):",
    ),
    Code(
        "N308",
        "undeclared dimension",
        "A shape names a dimension that no `pl.dynamic` declares; one is made.",
        "x: pl.Tensor[[K, 64], pl.FP32]",
        'K = pl.dynamic("K")',
        52,
    ),
    Code(
        "N309",
        "name outside its block",
        "A name is used after the block that defines it; the compiler's printer leaves such uses in some dumps.",
        "for i in pl.range(4):\n    y = ...\nz = pl.tile.abs(y)",
        "name the value with pl.yield_",
    ),
)

CODES: dict[str, Code] = {entry.code: entry for entry in _ENTRIES}
