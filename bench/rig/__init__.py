# SPDX-License-Identifier: MIT
"""The measuring rig: which allocators, which workloads, how they are run, how results are shown.

allocators and workloads are tables and know nothing of each other; runner combines them into
samples on disk; figures and report read samples only, so it can be run again on an old directory.
"""
