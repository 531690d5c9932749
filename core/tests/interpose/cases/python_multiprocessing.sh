# SPDX-License-Identifier: MIT
# Python's tests of multiprocessing with fork: pools, queues, shared memory between children.
# serves: python3
. "$CASES/lib.sh"
python_result 'multiprocessing_fork:WithProcessesTestPool|WithProcessesTestQueue|WithProcessesTestConnection|WithThreadsTestPool|WithProcessesTestValue|WithProcessesTestArray|WithProcessesTestHeap|WithProcessesTestSharedMemory'
