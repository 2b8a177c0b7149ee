"""The passes, one a file, each a function `run(program, context) -> program`."""
