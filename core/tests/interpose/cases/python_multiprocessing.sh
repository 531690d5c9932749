# SPDX-License-Identifier: MIT
# Python's tests of multiprocessing with fork: pools, queues, shared memory between children.
# (The pool of threads is left out: its own tests sometimes hang, with any allocator.)
# serves: python3
# modes: fast secure debug
. "$CASES/lib.sh"
python_result 'multiprocessing_fork:WithProcessesTestPool|WithProcessesTestQueue|WithProcessesTestConnection|WithProcessesTestValue|WithProcessesTestArray|WithProcessesTestHeap|WithProcessesTestSharedMemory'
