/* Shares out numbered tasks among threads. */

#ifndef EDGE_TRANSFORMER_THREADS_H
#define EDGE_TRANSFORMER_THREADS_H

#include <stdint.h>

/* Does the tasks from `first` to before `last`, as the share with this number. */
typedef void (*work_on)(const void *job, int number, int64_t first, int64_t last);

/* How many shares there will be. */
int shares_of(int threads, int64_t tasks);

void share_out(int threads, int64_t tasks, work_on work, const void *job);

#endif
