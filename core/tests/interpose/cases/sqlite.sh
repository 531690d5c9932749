# SPDX-License-Identifier: MIT
# sqlite3: a database is filled, changed, indexed, vacuumed and checked.
# needs: sqlite3
# serves: sqlite3
# modes: fast secure debug
. "$CASES/lib.sh"
under sqlite3 test.db < "$CASES/programs/work.sql"
