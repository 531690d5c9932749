# SPDX-License-Identifier: MIT
# PHP: its extensions ask the libc for memory before the preloaded library (RTLD_DEEPBIND). Hashes, regular
# expressions, large strings, extensions; with its own allocator and without.
# needs: php
# serves: php
# modes: fast secure debug
. "$CASES/lib.sh"
under php "$CASES/programs/work.php"
USE_ZEND_ALLOC=0 under php "$CASES/programs/work.php"
