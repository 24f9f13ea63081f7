/* Shares out numbered tasks among threads, which live for one call. */

#ifndef EDGE_TRANSFORMER_THREADS_H
#define EDGE_TRANSFORMER_THREADS_H

#include <pthread.h>
#include <stdint.h>

#define MOST_THREADS 256

/* Does the tasks from `first` to before `last`; 0, or 1 where it failed. */
typedef int (*work_on)(const void *job, int64_t first, int64_t last);

typedef struct {
    work_on work;
    const void *job;
    int64_t first, last;
    int failed;
} share;

static void *run_share(void *argument) {
    share *s = argument;
    s->failed = s->work(s->job, s->first, s->last);
    return 0;
}

/* 0, or 1 where any share failed. */
static int share_out(int threads, int64_t tasks, work_on work, const void *job) {
    threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
    if (threads > tasks) threads = (int)(tasks < 1 ? 1 : tasks);
    share shares[MOST_THREADS];
    pthread_t ids[MOST_THREADS];
    int failed = 0, started[MOST_THREADS];
    for (int t = 0; t < threads; t++) {
        shares[t] = (share){work, job, tasks * t / threads, tasks * (t + 1) / threads, 0};
        started[t] = t + 1 < threads && !pthread_create(&ids[t], 0, run_share, &shares[t]);
        if (!started[t]) run_share(&shares[t]); /* the last share, or no thread to be had: do it ourselves */
    }
    for (int t = 0; t < threads; t++) {
        if (started[t]) pthread_join(ids[t], 0);
        failed |= shares[t].failed;
    }
    return failed;
}

#endif
