# SPDX-License-Identifier: MIT
# An HTTP server in Python that takes JSON documents of up to 30 KiB on four connections, each a
# thread, keeps the last 200, and answers with others (json-server.py). The client is not served by
# the allocator. The time is that of the load, the memory the server's.
# serves: python3
. "$PROGRAMS/lib.sh"

python=$(system_python) || skip "no python3 here"

prepare() { :; }

run() {
    rm -f socket
    under "$python" "$PROGRAMS/json-server.py" serve "$WORK/socket" &
    server=$!
    wait_for 10 test -S socket
    # It must not outlive a script that fails.
    trap 'kill "$(cat socket.pid)"' EXIT
    start=$(now)
    "$python" "$PROGRAMS/json-server.py" load "$WORK/socket" 2000
    seconds "$start" "$(now)"
    wait $server
    trap - EXIT
}

"$1"
