/* SPDX-License-Identifier: MIT
 *
 * messages: buffers of 1 to 64 KiB (log-uniform) go from the thread that allocates them to another
 * one that reads and frees them, through a ring of 64: one way, or both ways between two threads.
 * The sender writes a byte of each page. ns per message on the wall clock; peak of resident memory.
 * Source of the idea: pipelines, message queues, network servers with a thread for each direction;
 * the small blocks of `remote` never leave the allocators' fast paths.
 */
#include "bench.h"
#include <stdatomic.h>

enum { RING = 64, SIZES = 4096 };

struct message {
    uint32_t size;
};

/* One direction. Each end writes a line of its own. */
struct lane {
    _Alignas(64) atomic_size_t sent;
    _Alignas(64) atomic_size_t received;
    _Alignas(64) struct message *ring[RING];
};

/* What a thread does in one block of work: `in` or `out` is NULL for a thread of one direction. */
struct worker {
    struct lane *in, *out;
};

static struct lane there, back;
static uint32_t sizes[SIZES];
static size_t per_block;

static bool try_send(struct lane *lane, size_t n) {
    if (n - atomic_load_explicit(&lane->received, memory_order_acquire) >= RING) return false;
    uint32_t size = sizes[n % SIZES];
    struct message *message = must(malloc(size));
    write_pages((char *)message, size);
    message->size = size;
    lane->ring[n % RING] = message;
    atomic_store_explicit(&lane->sent, n + 1, memory_order_release);
    return true;
}

static bool try_receive(struct lane *lane, size_t n) {
    if (atomic_load_explicit(&lane->sent, memory_order_acquire) == n) return false;
    struct message *message = lane->ring[n % RING];
    if (message->size != sizes[n % SIZES]) {
        report("failed", 1, "wrong-message");
        _exit(1);
    }
    free(message);
    atomic_store_explicit(&lane->received, n + 1, memory_order_release);
    return true;
}

static void exchange(struct worker *w, size_t *sent, size_t *received) {
    size_t sent_end = w->out ? *sent + per_block : *sent;
    size_t received_end = w->in ? *received + per_block : *received;
    unsigned idle = 0;
    while (*sent < sent_end || *received < received_end) {
        bool moved = false;
        if (*sent < sent_end && try_send(w->out, *sent)) moved = true, ++*sent;
        if (*received < received_end && try_receive(w->in, *received)) moved = true, ++*received;
        /* The machine may have fewer CPUs than threads. */
        if (!moved && ++idle % 64 == 0) sched_yield();
    }
}

static void *work(void *worker) {
    size_t sent = 0, received = 0;
    for (;;) {
        pthread_barrier_wait(&each_turn);
        exchange(worker, &sent, &received);
        pthread_barrier_wait(&each_turn);
    }
    return NULL;
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    bool both = argc > 2 && strcmp(argv[2], "both-ways") == 0;
    struct worker workers[2] = {{both ? &back : NULL, &there}, {&there, both ? &back : NULL}};
    draw_log_uniform(sizes, SIZES, KIB, 64 * KIB, 12345);
    per_block = bench_short ? 10000 : 20000;
    pthread_barrier_init(&each_turn, NULL, 3);
    for (size_t i = 0; i < 2; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, &workers[i]) != 0) _exit(1);
    }
    const char *row = both ? "messages/both-ways" : "messages/one-way";
    report(row, measure_wall(one_turn, NULL, per_block * (both ? 2 : 1)), "ns");
    bench_end(row);
    return 0;
}
