/* SPDX-License-Identifier: MIT
 *
 * The model test with a random generator in place of a fuzzer.
 *
 *   model [--seed N] [--ops N] [--rounds N] [--seconds N] [--concurrent] [--fork]
 *         [--valid-every N] [--print] [--shrink] [--file INPUT]
 *
 * Round k of seed N is the run of seed N + k alone. Each round runs in a process of its own; when
 * one fails, the command that replays it is printed. --shrink drops operations as long as the list
 * still fails and prints what is left.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../test.h"
#include "run.h"

enum { TIME_LIMIT_S = 240 };

struct arguments {
    uint64_t seed;
    size_t ops, rounds, seconds;
    bool prints, shrinks;
    const char *file;
    struct model_options options;
};

static struct arguments arguments = {.ops = 5000, .rounds = 1, .options = {.valid_every = 256}};

static size_t number(const char *name, const char *text)
{
    char *end = NULL;
    unsigned long long value = text ? strtoull(text, &end, 10) : 0;
    if (!text || end == text || *end) {
        fprintf(stderr, "model: %s needs a number\n", name);
        exit(2);
    }
    return (size_t)value;
}

static void parse(char **argv)
{
    arguments.seed = (uint64_t)time(NULL) * 1000003 + (uint64_t)getpid();
    for (char **at = argv + 1; *at; at++) {
        const char *name = *at;
        if (!strcmp(name, "--concurrent")) {
            arguments.options.is_concurrent = true;
        } else if (!strcmp(name, "--fork")) {
            arguments.options.may_fork = true;
        } else if (!strcmp(name, "--print")) {
            arguments.prints = true;
        } else if (!strcmp(name, "--shrink")) {
            arguments.shrinks = true;
        } else if (!strcmp(name, "--seed")) {
            arguments.seed = number(name, *++at);
        } else if (!strcmp(name, "--ops")) {
            arguments.ops = number(name, *++at);
        } else if (!strcmp(name, "--rounds")) {
            arguments.rounds = number(name, *++at);
        } else if (!strcmp(name, "--seconds")) {
            arguments.seconds = number(name, *++at);
        } else if (!strcmp(name, "--valid-every")) {
            arguments.options.valid_every = number(name, *++at);
        } else if (!strcmp(name, "--file") && at[1]) {
            arguments.file = *++at;
        } else {
            fprintf(stderr, "model: unknown option %s\n", name);
            exit(2);
        }
    }
}

static size_t read_file(uint8_t *bytes, size_t most)
{
    FILE *file = fopen(arguments.file, "rb");
    if (!file) {
        fprintf(stderr, "model: %s: %s\n", arguments.file, strerror(errno));
        exit(2);
    }
    size_t length = fread(bytes, 1, most, file);
    fclose(file);
    return length;
}

static size_t generate(uint64_t seed, struct op *ops)
{
    uint8_t *bytes = malloc(arguments.ops * OP_BYTES);
    size_t length = arguments.ops * OP_BYTES;
    if (arguments.file) {
        length = read_file(bytes, length);
    } else {
        uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
        state = state ? state : 1;
        for (size_t i = 0; i < length; i++) {
            bytes[i] = (uint8_t)(test_random(&state) >> 40);
        }
    }
    size_t count = ops_decode(bytes, length, ops, arguments.ops);
    free(bytes);
    return count;
}

/* The status of a child that runs the list; quiet ones are the steps of --shrink. */
static int run_in_child(const struct op *ops, size_t count, bool is_quiet)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(TIME_LIMIT_S);
        if (is_quiet && !freopen("/dev/null", "w", stderr)) {
            _exit(2);
        }
        model_run(ops, count, &arguments.options);
        _exit(0);
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("model: fork");
        exit(70);
    }
    return status;
}

/* Drops chunks, halving them, as long as what is left still fails. */
static size_t shrink(struct op *ops, size_t count)
{
    struct op *shorter = malloc(count * sizeof *ops);
    for (size_t chunk = count / 2; chunk > 0; chunk /= 2) {
        for (size_t at = 0; at + chunk <= count;) {
            memcpy(shorter, ops, at * sizeof *ops);
            memcpy(shorter + at, ops + at + chunk, (count - at - chunk) * sizeof *ops);
            if (run_in_child(shorter, count - chunk, true) != 0) {
                count -= chunk;
                memcpy(ops, shorter, count * sizeof *ops);
            } else {
                at += chunk;
            }
        }
    }
    free(shorter);
    return count;
}

static void report(const char *program, uint64_t seed, int status, struct op *ops, size_t count)
{
    if (WIFSIGNALED(status)) {
        fprintf(stderr, "model: ended by signal %d (%s)\n", WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    }
    fprintf(stderr, "replay: %s --seed %" PRIu64 " --ops %zu%s%s --valid-every %zu%s%s --shrink\n",
            program, seed, arguments.ops, arguments.options.is_concurrent ? " --concurrent" : "",
            arguments.options.may_fork ? " --fork" : "", arguments.options.valid_every,
            arguments.file ? " --file " : "", arguments.file ? arguments.file : "");
    if (arguments.shrinks) {
        count = shrink(ops, count);
        fprintf(stderr, "shrunk to %zu operations:\n", count);
        for (size_t i = 0; i < count; i++) {
            ops_print_one(stderr, i, &ops[i]);
        }
        run_in_child(ops, count, false);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    parse(argv);
    printf("model: --seed %" PRIu64 " --ops %zu%s\n", arguments.seed, arguments.ops,
           arguments.options.is_concurrent ? " --concurrent" : "");
    struct op *ops = malloc(arguments.ops * sizeof *ops + 1);
    time_t end = time(NULL) + (time_t)arguments.seconds;
    size_t round = 0;
    for (; arguments.seconds ? time(NULL) < end : round < arguments.rounds; round++) {
        uint64_t seed = arguments.seed + round;
        size_t count = generate(seed, ops);
        for (size_t i = 0; arguments.prints && i < count; i++) {
            ops_print_one(stdout, i, &ops[i]);
        }
        int status = run_in_child(ops, count, false);
        if (status != 0) {
            report(argv[0], seed, status, ops, count);
            return 1;
        }
    }
    printf("model: %zu rounds of %zu operations\n", round, arguments.ops);
    free(ops);
    return 0;
}
