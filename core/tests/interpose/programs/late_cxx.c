/* SPDX-License-Identifier: MIT
 *
 * Opens a C++ library, which nobody else in the process sees, and lets its operator new fail.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **arguments)
{
    void *library = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*run)(void) = library != NULL ? (int (*)(void))dlsym(library, "run_cxx") : NULL;
    if (run == NULL) {
        printf("%s\n", dlerror());
        return 1;
    }
    int line = run();
    printf("line %d\n", line);
    return line != 0;
}
