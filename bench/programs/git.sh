# SPDX-License-Identifier: MIT
# git repack of 250 commits with 200 files, all deltas computed anew.
# needs: git python3
# serves: git
. "$PROGRAMS/lib.sh"

prepare() {
    cat >history.py <<'END'
import random, sys
random.seed(12345)
out = sys.stdout.buffer
files = [[f"line {random.random()}" for _ in range(random.randrange(20, 200))] for _ in range(200)]
for commit in range(250):
    out.write(b"commit refs/heads/main\ncommitter A <a@b> %d +0000\ndata 1\nx\n" % (10**9 + commit))
    for i in (range(200) if commit == 0 else random.sample(range(200), 20)):
        files[i][random.randrange(len(files[i]))] = f"line {random.random()}"
        data = "\n".join(files[i]).encode()
        out.write(b"M 100644 inline f%d\ndata %d\n%s\n" % (i, len(data), data))
END
    rm -rf history.git
    git init -q --bare history.git
    python3 history.py | git -C history.git fast-import --quiet
}

run() {
    under git -C history.git -c pack.threads=2 repack -adfq --window=100
}

"$1"
