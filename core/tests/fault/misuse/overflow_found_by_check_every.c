// expect: secure=any fast=any debug=abort "overflow of"
/* SPDX-License-Identifier: MIT
 * With check_every the debug build looks behind all blocks now and then, also behind one that nobody frees: here the
 * program ends without a look. */
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **words)
{
    if (count == 1) {
        setenv("MALLOW_CONF", "check_every:10", 1);
        execl("/proc/self/exe", words[0], "again", (char *)NULL);
        return 2;
    }
    char *volatile block = malloc(100);
    block[100] ^= 1;
    for (int i = 0; i < 20; i++) {
        malloc(64);
    }
    _exit(0);
}
