# SPDX-License-Identifier: MIT
# Ruby: threads, large strings, the garbage collector, fork.
# needs: ruby
# serves: ruby
# modes: fast secure debug
. "$CASES/lib.sh"
under ruby "$CASES/programs/work.rb"
