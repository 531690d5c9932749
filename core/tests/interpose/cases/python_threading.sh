# SPDX-License-Identifier: MIT
# Python's tests of threads, with every object from malloc.
# serves: python3
# modes: fast secure debug
. "$CASES/lib.sh"
python_result 'test_threading:ThreadTests|CRLockTests|ConditionAs|BarrierTests|ThreadJoinOnShutdown|SubinterpThreading|LocalTests' test_threading_local test_thread
