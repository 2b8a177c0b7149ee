"""The preamble of every generated script: real, tested modules whose text the script carries (see `generate.py`).

Each module here imports only `torch`, the standard library and its siblings by `from .x import ...`; those lines are
dropped when the text is joined, so all names share one namespace in the script.
"""
