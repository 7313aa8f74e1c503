"""Forms that an engine offers for a case: one or more forms of the same computation.

An engine is a class with `name`, `tiers` (of cases.TIERS, in which it can be measured), `version()` and `forms(case, data)`,
which yields Form(label, run, output), or None for a form that this version of the library lacks: `run()` computes once,
`output()` views the result as the case has it, attention as [batch, head, token, channel]. A missing package raises ImportError
in the constructor, which takes the number of threads. All run in the case's type, and with one thread unless it says otherwise.
"""

from dataclasses import dataclass
from typing import Callable

import numpy as np


@dataclass
class Form:
    label: str
    run: Callable[[], object]
    output: Callable[[], np.ndarray]
