# SPDX-License-Identifier: MIT
"""Tells whether the machine did other work while a sample was taken."""

import os
import time

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# CPUs that others may use before a sample counts as disturbed.
MOST_OTHERS = 0.25
# With more of the samples disturbed than this the load is there to stay: no sample is taken again.
HOPELESS = 0.3


def busy_s():
    """CPU seconds that were not idle, those stolen by the host included."""
    with open("/proc/stat") as stat:
        user, nice, system, _, _, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_S


class Watch:
    """Started before a sample; `others(cpu_s)` after it, with the CPU time of the sample itself."""

    def __init__(self):
        self.start, self.busy = time.monotonic(), busy_s()

    def others(self, cpu_s):
        """CPUs used by others on average; None where the sample was too short to tell."""
        wall = time.monotonic() - self.start
        return max(0.0, (busy_s() - self.busy - cpu_s) / wall) if wall > 0.1 else None
