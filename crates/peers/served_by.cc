// SPDX-License-Identifier: MIT
//
// Prints which file each function of the allocator comes from in this process, after a few blocks
// have gone through it, here and in a second thread: a library that is preloaded but broken ends
// with a signal or a wrong byte.
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <new>

static bool use() {
    void *kept[64];
    for (size_t i = 0; i < 64; i++) {
        size_t size = (size_t)1 << (i % 24);
        char *p = (char *)(i % 2 ? malloc(size) : calloc(1, size));
        if (p == nullptr) return false;
        memset(p, (int)i, size);
        kept[i] = realloc(p, 2 * size);
        if (kept[i] == nullptr || *(char *)kept[i] != (char)i) return false;
    }
    for (void *p : kept) free(p);
    void *aligned = nullptr;
    if (posix_memalign(&aligned, 4096, 100) != 0 || ((size_t)aligned & 4095) != 0) return false;
    free(aligned);
    free(aligned_alloc(64, 128));
    int *object = new int[100];
    delete[] object;
    return true;
}

static void *use_in_thread(void *) { return use() ? (void *)1 : nullptr; }

static void tell(const char *name, void *function) {
    Dl_info info;
    printf("%s %s\n", name, dladdr(function, &info) && info.dli_fname ? info.dli_fname : "unknown");
}

int main() {
    pthread_t thread;
    void *good = nullptr;
    if (!use() || pthread_create(&thread, nullptr, use_in_thread, nullptr) != 0) return 1;
    pthread_join(thread, &good);
    if (good == nullptr) return 1;
    static const char *const names[] = {"malloc", "free", "calloc", "realloc", "posix_memalign",
                                        "aligned_alloc", "memalign", "malloc_usable_size"};
    for (const char *name : names) tell(name, dlsym(RTLD_DEFAULT, name));
    tell("new", dlsym(RTLD_DEFAULT, "_Znwm"));
    tell("delete", dlsym(RTLD_DEFAULT, "_ZdlPv"));
    return 0;
}
