# SPDX-License-Identifier: MIT
# Python's tests of subprocess: fork, vfork and exec from a program with threads.
# serves: python3
# modes: fast secure debug
. "$CASES/lib.sh"
python_result 'test_subprocess:\.POSIXProcessTestCase|\.RunFuncTestCase.*(run|check|returncode)'
