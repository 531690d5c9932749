# SPDX-License-Identifier: MIT
# Perl: hashes, regular expressions, large strings, fork.
# needs: perl
# serves: perl
# modes: fast secure debug
. "$CASES/lib.sh"
under perl "$CASES/programs/work.pl"
