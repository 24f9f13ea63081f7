/* Shares out numbered tasks among threads, which live for one call. */

#ifndef EDGE_TRANSFORMER_THREADS_H
#define EDGE_TRANSFORMER_THREADS_H

#include <pthread.h>
#include <stdint.h>

#define MOST_THREADS 256

/* Does the tasks from `first` to before `last`, as the share with this number. */
typedef void (*work_on)(const void *job, int number, int64_t first, int64_t last);

typedef struct {
    work_on work;
    const void *job;
    int number;
    int64_t first, last;
} share;

static void *run_share(void *argument) {
    share *s = argument;
    s->work(s->job, s->number, s->first, s->last);
    return 0;
}

/* How many shares there will be. */
static inline int shares_of(int threads, int64_t tasks) {
    threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
    return threads > tasks ? (int)(tasks < 1 ? 1 : tasks) : threads;
}

static void share_out(int threads, int64_t tasks, work_on work, const void *job) {
    const int count = shares_of(threads, tasks);
    share shares[MOST_THREADS];
    pthread_t ids[MOST_THREADS];
    int started[MOST_THREADS];
    for (int t = 0; t < count; t++) {
        shares[t] = (share){work, job, t, tasks * t / count, tasks * (t + 1) / count};
        started[t] = t + 1 < count && !pthread_create(&ids[t], 0, run_share, &shares[t]);
        if (!started[t]) run_share(&shares[t]); /* the last share, or no thread to be had: do it ourselves */
    }
    for (int t = 0; t < count; t++)
        if (started[t]) pthread_join(ids[t], 0);
}

#endif
