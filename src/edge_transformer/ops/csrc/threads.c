/* Shares out numbered tasks among the threads of PyTorch's own OpenMP pool, or among new ones where there is no pool.

PyTorch's threads stay awake for a while after each of its operations, waiting for the next one. On a machine with as
many of them as cores, threads of ours would have to wait until they fall asleep. */

#include "threads.h"

#include <pthread.h>
#include <stdatomic.h>

#define MOST_THREADS 256
#define PIECES 8 /* for each thread: one whose core also does other work leaves some to the others */

/* GOMP_parallel of the OpenMP that PyTorch has loaded: runs `work(data)` on that many threads of its pool, if it can. */
typedef void (*parallel)(void (*work)(void *data), void *data, unsigned threads, unsigned flags);

static parallel pool;

void edge_transformer_use_pool(parallel p) { pool = p; }

typedef struct {
    work_on work;
    const void *job;
    int64_t tasks, pieces;
    int limit;          /* of workers */
    atomic_int workers; /* that have come */
    atomic_int next;    /* the first piece that nobody has taken yet */
} shares;

/* Whoever comes takes the next piece, until there is none: the pool may give fewer threads than were asked for. */
static void take_pieces(void *argument) {
    shares *s = argument;
    const int worker = atomic_fetch_add(&s->workers, 1);
    if (worker >= s->limit) return; /* more than were asked for */
    for (int64_t t; (t = atomic_fetch_add(&s->next, 1)) < s->pieces;)
        s->work(s->job, worker, s->tasks * t / s->pieces, s->tasks * (t + 1) / s->pieces);
}

static void *take_pieces_in_thread(void *argument) {
    take_pieces(argument);
    return 0;
}

int workers_for(int threads, int64_t tasks) {
    threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
    return threads > tasks ? (int)(tasks < 1 ? 1 : tasks) : threads;
}

void share_out(int threads, int64_t tasks, work_on work, const void *job) {
    const int workers = workers_for(threads, tasks);
    if (workers == 1) {
        work(job, 0, 0, tasks);
        return;
    }
    shares s = {work, job, tasks, tasks < workers * PIECES ? tasks : workers * PIECES, workers, 0, 0};
    if (pool) {
        pool(take_pieces, &s, (unsigned)workers, 0);
        return;
    }
    pthread_t ids[MOST_THREADS];
    int started = 0;
    while (started + 1 < workers && !pthread_create(&ids[started], 0, take_pieces_in_thread, &s)) started++;
    take_pieces(&s);
    for (int t = 0; t < started; t++) pthread_join(ids[t], 0);
}
