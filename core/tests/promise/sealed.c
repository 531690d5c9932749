/* SPDX-License-Identifier: MIT
 *
 * The keys of the library are read-only once the process has begun: what writes there is ended. What may change
 * while the program runs, which the same way of looking finds, is not. The same where the kernel does not let the
 * library write there when it begins.
 */
#include "promise.h"
#include "refused.h"

static volatile char *root(const char *name)
{
    const struct stats_page *page = dlsym(RTLD_DEFAULT, "mw_stats_page");
    CHECK(page != NULL);
    for (uint32_t i = 0; i < page->root_count; i++) {
        if (strcmp(page->roots[i].name, name) == 0) {
            return (volatile char *)(uintptr_t)page->roots[i].address;
        }
    }
    CHECK_MSG(false, "no root %s", name);
    return NULL;
}

int main(int count, char **words)
{
    free(malloc(100));
    CHECK_MSG(promise_traps(root("link_keys")), "the keys can be written over");
    CHECK_MSG(!promise_traps(root("options")), "options that may change cannot");
    if (count > 1) {
        return 0;
    }
    if (!refuse_to_make_writable()) {
        printf("skipped: no seccomp filters here (%s)\n", strerror(errno));
        return 0;
    }
    static char again[] = "again";
    execv("/proc/self/exe", (char *[]){words[0], again, NULL});
    CHECK_MSG(false, "execv: %s", strerror(errno));
}
