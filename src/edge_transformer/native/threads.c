/* Shares out numbered tasks among the threads of PyTorch's own OpenMP pool, or among new ones where there is no pool.

PyTorch's threads stay awake for a while after each of its operations, waiting for the next one. On a machine with as
many of them as cores, threads of ours would have to wait until they fall asleep. */

#include "threads.h"

#include <pthread.h>
#include <stdatomic.h>

#define MOST_THREADS 256

/* GOMP_parallel of the OpenMP that PyTorch has loaded: runs `work(data)` on that many threads of its pool, if it can. */
typedef void (*parallel)(void (*work)(void *data), void *data, unsigned threads, unsigned flags);

static parallel pool;

void edge_transformer_use_pool(parallel p) { pool = p; }

typedef struct {
    work_on work;
    const void *job;
    int64_t tasks;
    int count;       /* of shares */
    atomic_int next; /* the first share that nobody has taken yet */
} shares;

/* Whoever comes takes the next share, until there is none: the pool may give fewer threads than were asked for. */
static void take_shares(void *argument) {
    shares *s = argument;
    for (int t; (t = atomic_fetch_add(&s->next, 1)) < s->count;)
        s->work(s->job, t, s->tasks * t / s->count, s->tasks * (t + 1) / s->count);
}

static void *take_shares_in_thread(void *argument) {
    take_shares(argument);
    return 0;
}

int shares_of(int threads, int64_t tasks) {
    threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
    return threads > tasks ? (int)(tasks < 1 ? 1 : tasks) : threads;
}

void share_out(int threads, int64_t tasks, work_on work, const void *job) {
    shares s = {work, job, tasks, shares_of(threads, tasks), 0};
    if (s.count > 1 && pool) {
        pool(take_shares, &s, (unsigned)s.count, 0);
        return;
    }
    pthread_t ids[MOST_THREADS];
    int started = 0;
    while (started + 1 < s.count && !pthread_create(&ids[started], 0, take_shares_in_thread, &s)) started++;
    take_shares(&s);
    for (int t = 0; t < started; t++) pthread_join(ids[t], 0);
}
