# SPDX-License-Identifier: MIT
# Lua 5.4, built from the sources of the crate lua-src, with musl too: tables, strings, closures.
# needs: cc cargo
# serves: lua
# musl: yes
. "$PROGRAMS/lib.sh"

prepare() {
    manifest=$(cargo metadata --format-version=1 --locked --all-features \
        --manifest-path "$ROOT/crates/peers/Cargo.toml" |
        grep -o '"manifest_path":"[^"]*/lua-src-[^"]*/Cargo.toml"' | head -n 1 | cut -d '"' -f 4)
    sources=$(ls -d "$(dirname "$manifest")"/lua-5.4*)
    for suffix in '' -musl; do
        compiler=${CC:-cc}
        [ -z "$suffix" ] || compiler=musl-gcc
        command -v $compiler >/dev/null || continue
        files=$(ls "$sources"/*.c | grep -v '/luac*\.c$')
        $compiler -O2 -DLUA_USE_POSIX -I"$sources" "$PROGRAMS/lua_host.c" $files -o "lua$suffix" -lm
    done
    cat >work.lua <<'END'
local words, count = {}, 0
for i = 1, 60000 do words[i] = "word " .. i .. string.rep("x", i % 40) end
local index = {}
for pass = 1, 3 do
  for _, w in ipairs(words) do
    local key = w:sub(1, 8) .. pass
    index[key] = index[key] or {}
    index[key][#index[key] + 1] = {w, function() count = count + 1 end}
  end
end
for _, list in pairs(index) do for _, entry in ipairs(list) do entry[2]() end end
local tree = {}
local function build(depth) if depth == 0 then return {} end return {build(depth - 1), build(depth - 1)} end
for i = 1, 12 do tree[i % 3] = build(13) end
local parts = {}
for i = 1, 200000 do parts[i % 1000 + 1] = tostring(i) .. "," .. i * 2 end
assert(count == 180000 and #table.concat(parts) > 1000)
END
}

run() {
    if [ -n "${MUSL:-}" ]; then
        [ -x ./lua-musl ] || skip "no musl-gcc here"
        ./lua-musl work.lua
    else
        under ./lua work.lua
    fi
}

"$1"
