/* Shares out numbered tasks among threads. */

#ifndef EDGE_TRANSFORMER_THREADS_H
#define EDGE_TRANSFORMER_THREADS_H

#include <stdint.h>

/* Does the tasks from `first` to before `last`, as the worker with this number. */
typedef void (*work_on)(const void *job, int worker, int64_t first, int64_t last);

/* How many workers there will be at most. */
int workers_for(int threads, int64_t tasks);

void share_out(int threads, int64_t tasks, work_on work, const void *job);

#endif
