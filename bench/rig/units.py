# SPDX-License-Identifier: MIT
"""How numbers are shown, and what the units mean."""

import math


def is_memory(unit):
    return unit in ("KiB", "MiB")


def number(value):
    """Three digits that matter."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(digits, 2)}f}"
