/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - maps names of metrics.jsonl to tags */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/names.h"

/* Values of steps whose tag is not train/ and their name. */
static const struct row {
    const char *name;
    const char *hf;        /* transformers' and TRL's, or ours; NULL: train/ and
                              the name */
    const char *deepspeed; /* NULL: that of hf */
} rows[] = {
    {"loss", NULL, "Train/Samples/train_loss"},
    {"lr", "train/learning_rate", "Train/Samples/lr"},
    {"loss_scale", NULL, "Train/Samples/loss_scale"},
    {"total_tokens", "train/num_tokens", NULL},
    {"tokens", "perf/tokens", NULL},
    {"tokens_per_s", "perf/tokens_per_s", NULL},
    {"step_s", "perf/step_s", NULL},
    {"compute_s", "perf/compute_s", NULL},
    {"comm_s", "perf/comm_s", NULL},
    {"comm_exposed_s", "perf/comm_exposed_s", NULL},
    {"data_wait_s", "perf/data_wait_s", NULL},
    {"mfu", "perf/mfu", NULL},
    {"skipped", "perf/skipped", NULL},
    {"ckpt_stall_s", "ckpt/stall_s", NULL},
    {"mem", "sys/mem", NULL},
    {"mem_peak", "sys/mem_peak", NULL},
    {"energy_j", "sys/energy_j", NULL},
    {"tokens_per_j", "sys/tokens_per_j", NULL},
    {"rank_step_s/min", "ranks/fastest_s", NULL},
    {"rank_step_s/median", "ranks/median_s", NULL},
    {"rank_step_s/max", "ranks/slowest_s", NULL},
    {"rank_step_s/argmax", "ranks/slowest", NULL},
};

enum dt_names dt_names_of(const char *word)
{
    return word && !strcmp(word, "deepspeed") ? DT_NAMES_DEEPSPEED
                                              : DT_NAMES_HF;
}

static const char *known_tag(enum dt_names names, const char *name)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (!strcmp(rows[i].name, name))
            return names == DT_NAMES_DEEPSPEED && rows[i].deepspeed
                       ? rows[i].deepspeed
                       : rows[i].hf;
    return NULL;
}

/* The length of the character of UTF-8 at `text`, or 0 if it is none. */
static size_t character_bytes(const unsigned char *text)
{
    static const struct {
        unsigned char mask, lead;
        unsigned least;
    } forms[] = {{0x80, 0x00, 0},
                 {0xe0, 0xc0, 0x80},
                 {0xf0, 0xe0, 0x800},
                 {0xf8, 0xf0, 0x10000}};
    for (size_t more = 0; more < 4; more++) {
        if ((text[0] & forms[more].mask) != forms[more].lead)
            continue;
        unsigned code = text[0] & (unsigned char)~forms[more].mask;
        for (size_t i = 1; i <= more; i++) {
            if ((text[i] & 0xc0) != 0x80)
                return 0;
            code = code << 6 | (text[i] & 0x3f);
        }
        bool is_one = code >= forms[more].least && code <= 0x10ffff &&
                      (code < 0xd800 || code > 0xdfff);
        return is_one ? more + 1 : 0;
    }
    return 0;
}

/* Replaces what is not UTF-8: the name of a reward may be any bytes, and
 * readers give up a file with a string of others.
 */
static void clean_tag(char *tag)
{
    size_t bytes;
    for (char *at = tag; *at; at += bytes) {
        bytes = character_bytes((const unsigned char *)at);
        if (bytes == 0) {
            *at = '_';
            bytes = 1;
        }
    }
}

/* Whether the algorithm counts tokens as TRL does; else all tokens count. */
static bool counts_tokens(const struct dt_report_record *record)
{
    for (size_t i = 0; i < record->count; i++)
        if (!strcmp(record->value[i].name, "num_tokens"))
            return true;
    return false;
}

bool dt_names_tag(enum dt_names names, const struct dt_report_record *record,
                  size_t i, char tag[DT_TAG_BYTES])
{
    const char *name = record->value[i].name;
    const bool trains = record->split == DT_SPLIT_TRAIN;
    if (!isfinite(record->value[i].value) && strcmp(name, "loss") != 0 &&
        strcmp(name, "grad_norm") != 0)
        return false;
    if (!strcmp(name, "total_tokens") && counts_tokens(record))
        return false;
    const char *known = trains ? known_tag(names, name) : NULL;
    if (known)
        snprintf(tag, DT_TAG_BYTES, "%s", known);
    else
        snprintf(tag, DT_TAG_BYTES, "%s/%s", trains ? "train" : "eval", name);
    clean_tag(tag);
    return true;
}
