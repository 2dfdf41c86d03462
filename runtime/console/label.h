/* SPDX-License-Identifier: Apache-2.0 */
/*
 * label.h - parses lines as srun --label writes them: "12: text"
 *
 * srun gets the output of a task in messages of at most DT_MESSAGE_BYTES, and
 * adds a newline to every message that does not end with one. A message has no
 * newline if a line is longer than a message, or with --unbuffered. The first
 * case can be recognized by the message's length, and the line put together
 * again.
 */
#ifndef DT_CONSOLE_LABEL_H
#define DT_CONSOLE_LABEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DT_MESSAGE_BYTES = 1024, /* Slurm 22.05 to 26.05 */
};

/* Returns the length of the label of a line in a step of `tasks` tasks and sets
 * *rank; 0 if the line has no label.
 */
size_t dt_label_parse(const char *line, size_t len, uint32_t tasks,
                      uint32_t *rank);

/* Whether srun has added the newline at the end of a line's text (without the
 * label).
 */
bool dt_label_adds_newline(const char *text, size_t len);

#endif /* DT_CONSOLE_LABEL_H */
