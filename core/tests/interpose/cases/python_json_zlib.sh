# SPDX-License-Identifier: MIT
# Python's tests of json (C accelerator) and zlib, with every object from malloc.
# serves: python3
# modes: fast secure debug
. "$CASES/lib.sh"
python_result test_json test_zlib
