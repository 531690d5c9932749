# SPDX-License-Identifier: MIT
# Node: worker threads, zlib in the thread pool, large buffers, JSON.
# needs: node
# serves: node
# modes: fast secure debug
. "$CASES/lib.sh"
under node "$CASES/programs/work.js"
