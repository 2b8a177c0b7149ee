"""What each operation means: one record an op. Importing this package fills the registry `OPS`."""

from pypto_lab.ops import array as array
from pypto_lab.ops import broadcast as broadcast
from pypto_lab.ops import cast as cast
from pypto_lab.ops import comparison as comparison
from pypto_lab.ops import crosscore as crosscore
from pypto_lab.ops import distributed as distributed
from pypto_lab.ops import elementwise as elementwise
from pypto_lab.ops import fill as fill
from pypto_lab.ops import gather as gather
from pypto_lab.ops import matmul as matmul
from pypto_lab.ops import memory as memory
from pypto_lab.ops import prefetch as prefetch
from pypto_lab.ops import reductions as reductions
from pypto_lab.ops import shape as shape
from pypto_lab.ops import sort as sort
from pypto_lab.ops import system as system
from pypto_lab.ops import task as task
from pypto_lab.ops.record import OPS as OPS
