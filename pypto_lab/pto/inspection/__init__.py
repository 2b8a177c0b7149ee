"""A look into a build folder that some compiler made: what is there, what is missing, and what does not fit together.

Nothing in such a folder is executed; its texts are read as untrusted input.
"""

from pypto_lab.pto.inspection.check import check_build
from pypto_lab.pto.inspection.folder import BuildFolder, read_build_folder

__all__ = ["BuildFolder", "check_build", "read_build_folder"]
