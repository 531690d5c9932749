# SPDX-License-Identifier: MIT
# git: a generated repository is filled, repacked with threads, checked and cloned.
# needs: git perl
# serves: git
# modes: fast secure debug
. "$CASES/lib.sh"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_AUTHOR_DATE='1700000000 +0000'
export GIT_COMMITTER_NAME=c GIT_COMMITTER_EMAIL=c@example.org GIT_COMMITTER_DATE='1700000000 +0000'

git init -q -b main source
perl "$CASES/programs/generate_history.pl" 150 40 | under git -C source fast-import --quiet
under git -C source -c pack.threads=4 gc --quiet --aggressive
under git -C source fsck --full --strict 2>&1
under git -C source rev-list --objects --all | sort | sha256sum
under git -C source log -p --stat main | sha256sum
under git clone -q --no-local source copy
under git -C copy fsck --full
under git -C copy rev-parse HEAD 'HEAD^{tree}'
under git -C copy blame -s file7 | sha256sum
