/* SPDX-License-Identifier: MIT
 *
 * What Mallow needs of glibc and musl, and nothing else. Where the two differ, both names are
 * weak in the shared object, and the one that exists is used.
 */
#include "os.h"
#include "../base/atomic.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

MAY_BE_MISSING int pthread_key_create(pthread_key_t *key, void (*destructor)(void *));
MAY_BE_MISSING int pthread_key_delete(pthread_key_t key);
MAY_BE_MISSING int pthread_setspecific(pthread_key_t key, const void *value);
MAY_BE_MISSING int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attr,
                                  void *(*run)(void *), void *restrict argument);
MAY_BE_MISSING int pthread_detach(pthread_t thread);
MAY_BE_MISSING int sigaction(int signal, const struct sigaction *restrict action,
                             struct sigaction *restrict old);
MAY_BE_MISSING int pthread_mutex_trylock(pthread_mutex_t *mutex);

/* glibc's pthread_atfork is a static function that calls the first; musl has only the second. */
#if MW_SHARED_OBJECT
__attribute__((weak)) int __register_atfork(void (*before)(void), void (*in_parent)(void),
                                            void (*in_child)(void), void *dso_handle);
#endif
MAY_BE_MISSING int pthread_atfork(void (*before)(void), void (*in_parent)(void),
                                  void (*in_child)(void));

/* glibc's list of all streams, recursive. Weak in an archive too: musl has nothing of the kind. */
__attribute__((weak)) void _IO_list_lock(void);
__attribute__((weak)) void _IO_list_unlock(void);
__attribute__((weak)) void _IO_list_resetlock(void);

/* In a static program the loader's functions may be missing, or only warn: never pull them in. */
__attribute__((weak)) void *dlsym(void *handle, const char *name);
__attribute__((weak)) void *load_object(const char *path, int flags) __asm__("dlopen");
__attribute__((weak)) int dlclose(void *handle);
__attribute__((weak)) int dladdr(const void *address, Dl_info *info);

static pthread_key_t thread_key;
static _Atomic bool have_thread_key;

static void libc_watch_threads(void (*at_exit)(void *))
{
    if (is_present(pthread_key_create) && is_present(pthread_setspecific)) {
        atomic_set_release(&have_thread_key, pthread_key_create(&thread_key, at_exit) == 0);
    }
}

#if !MW_SHARED_OBJECT
/* An archive may be part of a module that is unloaded, and then nothing may lead into it. The
 * shared object is never unloaded. */
DESTRUCTOR static void libc_forget_threads(void)
{
    if (atomic_exchange_explicit(&have_thread_key, false, memory_order_acquire)) {
        pthread_key_delete(thread_key);
    }
}
#endif

static bool libc_watch_this_thread(void *argument)
{
    return atomic_get_acquire(&have_thread_key) && /* pairs with libc_watch_threads */
           pthread_setspecific(thread_key, argument) == 0;
}

static void libc_watch_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void))
{
#if MW_SHARED_OBJECT
    if (__register_atfork != NULL) {
        /* A NULL handle: never unregistered, as this library is never unloaded. */
        __register_atfork(before, in_parent, in_child, NULL);
        return;
    }
#endif
    if (is_present(pthread_atfork)) {
        pthread_atfork(before, in_parent, in_child);
    }
}

static void libc_lock_streams(void)
{
    if (_IO_list_lock != NULL) {
        _IO_list_lock();
    }
}

static void libc_unlock_streams(void)
{
    if (_IO_list_unlock != NULL) {
        _IO_list_unlock();
    }
}

static void libc_reset_streams_in_child(void)
{
    if (_IO_list_resetlock != NULL) {
        _IO_list_resetlock();
    }
}

static bool libc_is_glibc(void)
{
#if MW_SHARED_OBJECT
    return __register_atfork != NULL;
#elif defined(__GLIBC__)
    return true;
#else
    return false;
#endif
}

/* By these the libc makes each thread follow setuid and the like, and waits for it: 32 and 33, and musl 34 as well, which
 * in glibc is the program's. */
static uint64_t libc_own_signals(void)
{
    return SIGNAL_BIT(32) | SIGNAL_BIT(33) | (libc_is_glibc() ? 0 : SIGNAL_BIT(34));
}

static bool libc_start_thread(void *(*run)(void *), _Atomic uint64_t *mask)
{
    if (!is_present(pthread_create) || !is_present(pthread_detach)) {
        return false;
    }
    pthread_t thread;
    uint64_t old = os_set_signal_mask(~libc_own_signals());
    atomic_set(mask, old);
    bool started = pthread_create(&thread, NULL, run, NULL) == 0;
    os_set_signal_mask(old);
    if (started) {
        pthread_detach(thread);
    }
    return started;
}

/* glibc writes it into each lock that may be taken twice. musl takes this one for another kind and
 * leaves the word 0. ThreadSanitizer would see locks that nobody releases. */
UNUSED static int libc_thread_number(void)
{
#if defined(__GLIBC__) && !defined(__SANITIZE_THREAD__)
    pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    if (is_present(pthread_mutex_trylock) && pthread_mutex_trylock(&mutex) == 0 &&
        mutex.__data.__owner != 0) {
        return mutex.__data.__owner;
    }
#endif
    return os_thread_number();
}

static void *libc_next_symbol(const char *name)
{
    return dlsym != NULL ? dlsym(RTLD_NEXT, name) : NULL;
}

static void *libc_symbol(const char *name)
{
    return dlsym != NULL ? dlsym(RTLD_DEFAULT, name) : NULL;
}

/* Only the shared object's operator new asks. */
UNUSED static void *libc_symbol_near(const void *address, const char *name)
{
    Dl_info info;
    if (dlsym == NULL || load_object == NULL || dlclose == NULL || dladdr == NULL) {
        return NULL;
    }
    if (dladdr(address, &info) == 0 || info.dli_fname == NULL) {
        return NULL;
    }
    void *object = load_object(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (object == NULL) {
        return dlsym(RTLD_DEFAULT, name); /* the program itself, which may have no name */
    }
    void *symbol = dlsym(object, name);
    dlclose(object);
    return symbol;
}

static bool libc_watch_signal(int signal, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    return is_present(sigaction) && sigaction(signal, &action, NULL) == 0;
}

static void libc_flush_streams(void)
{
    fflush(NULL);
}

static void libc_write_stream(void *stream, const char *text, size_t size)
{
    fwrite(text, 1, size, stream);
}
