/* SPDX-License-Identifier: Apache-2.0 */
/*
 * label.h - lines as srun --label writes them: "12: text"
 *
 * srun gets the output of a task in messages of at most DT_MESSAGE_BYTES, and
 * ends every message that does not end with a newline with one of its own. A
 * message without any newline happens when a line is longer than a message, or
 * with --unbuffered. The first kind can be told, by its length, and put
 * together again.
 */
#ifndef DT_REPORT_LABEL_H
#define DT_REPORT_LABEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DT_MESSAGE_BYTES = 1024, /* Slurm 22.05 to 26.05 */
};

/* The length of the label of a line, 0 if it has none, in a step of `tasks`
 * tasks; *rank is the rank then.
 */
size_t dt_label_parse(const char *line, size_t len, uint32_t tasks,
                      uint32_t *rank);

/* Whether the newline at the end of a line's text (without the label) is one
 * that srun has added.
 */
bool dt_label_adds_newline(const char *text, size_t len);

#endif /* DT_REPORT_LABEL_H */
