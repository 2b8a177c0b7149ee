"""The workbench: one cursor in a recording, many views of it, in a notebook, as a page that steps offline, or as text.

bench = workbench(recording, case=case)     # in a notebook: the widget
bench.save("run.html")                      # the same as one file
print(bench.text("queues"))                 # and as text
live(program, values)                       # a run that is watched while it goes on, and then its workbench
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto_lab.view.workbench.bench import VIEWS, Workbench
from pypto_lab.view.workbench.running import LiveWorkbench, live, watched

if TYPE_CHECKING:
    from pypto_lab.record.recording import Recording
    from pypto_lab.record.session import Session


def workbench(recording: Recording | Session, **context: Any) -> Workbench:
    """The workbench of a recording; `context` is what :class:`Workbench` takes besides (case, report, dumps ...)."""
    return Workbench(recording, **context)


__all__ = ["VIEWS", "LiveWorkbench", "Workbench", "live", "watched", "workbench"]
