/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.h - what our values are called in TensorBoard and, by a table of
 * contrib/wandb-follow that has the same rows, in Weights & Biases
 *
 * metrics.jsonl has the names of TRL's trainers. There they are tags with the
 * split in front, as transformers' Trainer writes them (train/loss,
 * eval/rewards/margins), or those of DeepSpeed's monitor where it has one. What
 * neither has, such as times and memory, is in groups of ours: perf/, sys/,
 * ckpt/, ranks/.
 */
#ifndef DT_REPORT_NAMES_H
#define DT_REPORT_NAMES_H

#include <stdbool.h>

#include "report/record.h"

enum dt_names { DT_NAMES_HF, DT_NAMES_DEEPSPEED };

enum { DT_TAG_BYTES = 192 };

/* The names that a word of logging.names means; NULL: the default. */
enum dt_names dt_names_of(const char *word);

/* Writes the tag of value i of a record, always valid UTF-8. False: the value
 * has none there. A NaN has one only where it says that training has diverged;
 * elsewhere it says that a value is unknown.
 */
bool dt_names_tag(enum dt_names names, const struct dt_report_record *record,
                  size_t i, char tag[DT_TAG_BYTES]);

#endif /* DT_REPORT_NAMES_H */
