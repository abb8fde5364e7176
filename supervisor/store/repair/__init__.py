"""Looking at a session's records as they lie in the file, and closing what was left open.

Rule 1: no record is ever rewritten or removed. What is wrong stays, and is reported; what was begun
        and never ended gets its end appended. Only a row that cannot be read is made anew, since it
        is nothing but the sum of its records.
Rule 2: everything here is pure. Whoever calls has read the records, claims the session, and writes
        what comes back.
Rule 3: looking never raises, whatever lies in the file.

`examine` reports, `readable` gives the records that can be used, `closing` the ends that are
missing, `refusal` says whether they may be appended, and `mend` is all of that in one call;
`mend_row` the same where the row cannot be read.
"""

from supervisor.core.errors import RepairRefused

from .closing import closing
from .examining import examine
from .mending import Mended, mend, mend_row, refusal
from .problems import Code, Problem, RepairReport, Severity
from .reading import readable
from .rows import damage_of

__all__ = [
    "Code",
    "Mended",
    "Problem",
    "RepairRefused",
    "RepairReport",
    "Severity",
    "closing",
    "damage_of",
    "examine",
    "mend",
    "mend_row",
    "readable",
    "refusal",
]
