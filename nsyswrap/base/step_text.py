"""Which texts of ranges name steps; the program that is profiled takes this pattern, too."""

import re

# The flag is part of the text, which alone is passed on.
STEP_TEXT = re.compile(r"(?i)(?:batch|step|iteration|iter)[\s_#:=\-\[(]*\d+[\])]?$")
