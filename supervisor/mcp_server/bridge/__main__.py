"""Start of the bridge as a script, with the standard library alone on the path."""

import os
import sys

# With -I and -S no installed package is on the path, and the package is found by its folder.
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120 - pathlib takes too long to import

__import__("bridge").main()
