"""Looking at a session's records as they lie in the file, and closing what was left open.

Rule 1: nothing is ever rewritten or removed. What is wrong stays, and is reported; what was begun
        and never ended gets its end appended.
Rule 2: everything here is pure. Whoever calls has read the records, claims the session, and writes
        what comes back.
Rule 3: looking never raises, whatever lies in the file.

`examine` reports, `readable` gives the records that can be used, `closing` the ends that are
missing, `refusal` says whether they may be appended, and `mend` is all of that in one call.
"""

from supervisor.core.errors import RepairRefused

from .closing import closing
from .examining import examine
from .mending import Mended, mend, refusal
from .problems import Code, Problem, RepairReport, Severity
from .reading import readable

__all__ = [
    "Code",
    "Mended",
    "Problem",
    "RepairRefused",
    "RepairReport",
    "Severity",
    "closing",
    "examine",
    "mend",
    "readable",
    "refusal",
]
