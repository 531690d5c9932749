/* One way of living and dying for each argument. Sizes are numbers that nobody else uses. */
#define _GNU_SOURCE /* pthread_setname_np */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef RTLD_DEEPBIND
#define DEEPBIND RTLD_DEEPBIND
#else
#define DEEPBIND 0 /* musl */
#endif

static void calls(size_t size, int count)
{
    for (int i = 0; i < count; i++) {
        void *volatile block = malloc(size);
        free(block);
    }
}

static void *thread(void *argument)
{
    (void)argument;
    char name[16] = "worker";
    pthread_setname_np(pthread_self(), name);
    calls(7001, 1000);
    return NULL;
}

static void on_signal(int signal)
{
    (void)signal;
    calls(7002, 1); /* as programs do, although they must not */
}

/* Gives blocks to a thread that frees them, and takes the same memory again, with quick calls between. */
static _Atomic(void *) handed_over;

static void *take_over(void *argument)
{
    for (int i = 0; i < 2000; i++) {
        void *block;
        while ((block = handed_over) == NULL) {
            sched_yield();
        }
        free(block);
        handed_over = NULL;
    }
    return argument;
}

static void hand_over(void)
{
    pthread_t id;
    calls(7000, 1000);
    pthread_create(&id, NULL, take_over, NULL);
    for (int i = 0; i < 2000; i++) {
        void *block = malloc(7014);
        calls(24, 11);
        handed_over = block;
        while (handed_over != NULL) {
            sched_yield();
        }
    }
    pthread_join(id, NULL);
}

static void threads(int count)
{
    pthread_t ids[64];
    for (int i = 0; i < count; i++) {
        pthread_create(&ids[i], NULL, thread, NULL);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(ids[i], NULL);
    }
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    calls(7000, 10);
    if (strcmp(how, "threads") == 0) {
        threads(8);
    } else if (strcmp(how, "hand-over") == 0) {
        hand_over();
    } else if (strcmp(how, "pause") == 0) {
        for (int i = 0; i < 8; i++) {
            calls(24, 100 + i);
            void *volatile block = malloc(7013);
            usleep(200000);
            free(block);
        }
    } else if (strcmp(how, "churn") == 0) {
        for (int i = 0; i < 500; i++) {
            threads(4);
        }
    } else if (strcmp(how, "fork") == 0) {
        void *volatile block = malloc(7003);
        pid_t child = fork();
        if (child == 0) {
            calls(7004, 100);
            free(block);
            _exit(5);
        }
        int status;
        waitpid(child, &status, 0);
        calls(7005, 100);
        return WEXITSTATUS(status);
    } else if (strcmp(how, "raw-fork") == 0) {
        /* Without the C library's knowledge, so without fork handlers. */
        long child = syscall(57 /* fork */);
        if (child == 0) {
            calls(7004, 100);
            _exit(0);
        }
        calls(7005, 100);
        waitpid((pid_t)child, NULL, 0);
    } else if (strcmp(how, "vfork") == 0) {
        /* Twice, and the children become others. */
        for (int i = 0; i < 2; i++) {
            pid_t child = vfork();
            if (child == 0) {
                execl(argv[0], argv[0], "", NULL);
                _exit(9);
            }
            waitpid(child, NULL, 0);
            calls(7005, 50);
        }
    } else if (strcmp(how, "exec") == 0) {
        execl(argv[0], argv[0], "threads", NULL);
    } else if (strcmp(how, "signal") == 0) {
        signal(SIGALRM, on_signal);
        for (int i = 0; i < 100; i++) {
            raise(SIGALRM);
        }
    } else if (strcmp(how, "_exit") == 0) {
        calls(7006, 77);
        _exit(6);
    } else if (strcmp(how, "_Exit") == 0) {
        calls(7006, 77);
        _Exit(6);
    } else if (strcmp(how, "kill") == 0) {
        calls(7007, 88);
        kill(getpid(), SIGKILL);
    } else if (strcmp(how, "dlopen") == 0 || strcmp(how, "deepbind") == 0) {
        void *library = dlopen(argv[2], RTLD_NOW | (how[1] == 'e' ? DEEPBIND : 0));
        void (*function)(void);
        *(void **)&function = library != NULL ? dlsym(library, "plugin") : NULL;
        if (function == NULL) {
            return 9;
        }
        function();
        usleep(300000); /* the collector looks for it while it is there */
        dlclose(library);
    } else if (strcmp(how, "wait") == 0) {
        /* Until a line comes, then a known number of calls. */
        char line[16];
        pid_t before = fork(); /* is there when the recording begins */
        if (before == 0) {
            alarm(60);
            pause();
        }
        puts("ready");
        fflush(stdout);
        if (fgets(line, sizeof(line), stdin) != NULL) {
            calls(7010, 50);
            void *volatile block = calloc(3, 2337);
            block = realloc(block, 7012);
            free(block);
            threads(2);
            pid_t child = fork();
            if (child == 0) {
                calls(7004, 100);
                execl(argv[0], argv[0], "_exit", NULL);
                _exit(9);
            }
            waitpid(child, NULL, 0);
        }
        puts("done");
        fflush(stdout);
        if (fgets(line, sizeof(line), stdin) != NULL) {
            kill(before, SIGKILL);
            waitpid(before, NULL, 0);
            return 3;
        }
    } else if (strcmp(how, "close") == 0) {
        for (int fd = 3; fd < 1024; fd++) {
            close(fd);
        }
        threads(2);
    }
    return 0;
}
