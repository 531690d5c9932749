/* SPDX-License-Identifier: MIT
 *
 * startup: this program starts itself many times as a trivial program that allocates one block and
 * ends; wall time per start (median), its CPU time (mean), and address space and private dirty
 * memory of such a program after its one malloc.
 * Source of the idea: /bin/true under each allocator; shell scripts start thousands of programs.
 */
#include "bench.h"
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

extern char **environ;

static void figures_of_a_trivial_program(void) {
    keep(must(malloc(16)));
    report("startup/vsz", proc_kib("/proc/self/status", "VmSize:") / 1024, "MiB");
    report("startup/dirty", proc_kib("/proc/self/smaps_rollup", "Private_Dirty:"), "KiB");
}

static void spawn_self(char *mode) {
    char self[] = "/proc/self/exe";
    char *arguments[] = {self, mode, NULL};
    pid_t child;
    int status = 1;
    if (posix_spawn(&child, self, NULL, NULL, arguments, environ) != 0 ||
        waitpid(child, &status, 0) != child || status != 0) {
        report("failed", 1, "spawn");
        _exit(1);
    }
}

static double children_cpu_us(void) {
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "trivial") == 0) {
        keep(must(malloc(16)));
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "figures") == 0) {
        figures_of_a_trivial_program();
        return 0;
    }
    bench_start(argc, argv);
    static double times[1001], cpu[1001];
    size_t count = bench_short ? 301 : LENGTH(times);
    char trivial[] = "trivial", figures[] = "figures";
    spawn_self(figures);
    for (size_t i = 0; i < count; i++) {
        double start = now_ns(), cpu_before = children_cpu_us();
        spawn_self(trivial);
        times[i] = (now_ns() - start) / 1e3;
        cpu[i] = children_cpu_us() - cpu_before;
    }
    report("startup/exec", lower_quartile(times, count), "us");
    report("startup/cpu", lower_quartile(cpu, count), "us");
    return 0;
}
