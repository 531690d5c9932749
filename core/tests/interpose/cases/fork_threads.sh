# SPDX-License-Identifier: MIT
# A program forks again and again while 16 threads allocate and free; each child allocates too.
# serves: fork_threads
# modes: fast secure debug
. "$CASES/lib.sh"
cc -O2 -pthread -o fork_threads "$CASES/programs/fork_threads.c"
under ./fork_threads 16 80
