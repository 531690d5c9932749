/* SPDX-License-Identifier: MIT
 *
 * Runs the Lua script that its argument names, as lua does (whose own main the crate leaves out).
 */
#include "lauxlib.h"
#include "lualib.h"
#include <stdio.h>

int main(int argc, char **argv) {
    lua_State *state = luaL_newstate();
    if (argc != 2 || state == NULL) return 2;
    luaL_openlibs(state);
    if (luaL_dofile(state, argv[1]) != LUA_OK) {
        fprintf(stderr, "%s\n", lua_tostring(state, -1));
        return 1;
    }
    lua_close(state);
    return 0;
}
