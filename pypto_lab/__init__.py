"""PyPTO Lab: run, step, check and compile PyPTO tile kernels on any laptop."""

__version__ = "0.1.0"
