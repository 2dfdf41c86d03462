/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - prints the records of a run as lines of JSON */
#include "config.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "report/record.h"

enum { EXACT_DIGITS = 9 }; /* of numbers that are not whole */

const char *const dt_account_names[DT_ACCOUNT_PARTS] = {
    [DT_ACCOUNT_STARTUP] = "startup",
    [DT_ACCOUNT_STEPS] = "steps",
    [DT_ACCOUNT_DATA] = "data",
    [DT_ACCOUNT_SAVING] = "saving",
    [DT_ACCOUNT_EVALUATION] = "evaluation",
    [DT_ACCOUNT_RECOVERY] = "recovery",
    [DT_ACCOUNT_LOST] = "lost",
    [DT_ACCOUNT_IDLE] = "idle",
};

static const double largest_whole = 9007199254740992.0; /* 2^53 */

void dt_record_add(struct dt_report_record *record, const char *name,
                   double value)
{
    if (record->count < DT_RECORD_VALUES_MAX)
        record->value[record->count++] =
            (struct dt_report_value){name, value, false};
}

/* Counts of tokens and bytes keep all their digits. */
static void put_number(FILE *out, double value)
{
    if (!isfinite(value))
        fputs("null", out);
    else if (value == floor(value) && fabs(value) < largest_whole)
        fprintf(out, "%.0f", value);
    else
        fprintf(out, "%.*g", EXACT_DIGITS, value);
}

/* A string of JSON. Text that is not UTF-8, as the name of a file may be, is
 * printed byte by byte.
 */
static void put_text(FILE *out, const char *text)
{
    json_t *string = json_string(text);
    if (string && json_dumpf(string, out, JSON_ENCODE_ANY) == 0) {
        json_decref(string);
        return;
    }
    json_decref(string);
    putc('"', out);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p < 0x20 || *p >= 0x7f || *p == '"' || *p == '\\')
            fprintf(out, "\\u%04x", *p);
        else
            putc(*p, out);
    }
    putc('"', out);
}

static void put_wall(FILE *out, double wall)
{
    fprintf(out, ", \"wall\": %.3f", wall);
}

/* Names come from the program, or from the rewards of the configuration. */
void dt_record_print(const struct dt_report_record *record, double time,
                     FILE *out)
{
    fprintf(out, "{\"step\": %ld, \"split\": \"%s\"", record->step,
            record->split == DT_SPLIT_EVAL ? "eval" : "train");
    for (size_t i = 0; i < record->count; i++) {
        fputs(", ", out);
        put_text(out, record->value[i].name);
        fputs(": ", out);
        put_number(out, record->value[i].value);
    }
    fputs(", \"time\": ", out);
    put_number(out, time);
    put_wall(out, record->wall);
    fputs("}\n", out);
}

static void put_member(FILE *out, const char *key, const char *text)
{
    if (!text)
        return;
    fprintf(out, ", \"%s\": ", key);
    put_text(out, text);
}

static void put_spent(FILE *out, const double spent[DT_ACCOUNT_COUNTED])
{
    double sum = 0;
    for (int i = 0; i < DT_ACCOUNT_COUNTED; i++)
        sum += spent[i];
    for (int i = 0; i < DT_ACCOUNT_COUNTED && sum > 0; i++)
        fprintf(out, "%s\"%s\": %.6f", i == 0 ? ", \"spent\": {" : ", ",
                dt_account_names[i], spent[i]);
    if (sum > 0)
        putc('}', out);
}

void dt_event_print(const struct dt_report_event *event, FILE *out)
{
    fprintf(out, "{\"event\": \"%s\", \"step\": %ld", event->kind, event->step);
    put_wall(out, event->wall);
    if (isfinite(event->seconds))
        fprintf(out, ", \"seconds\": %.6g", event->seconds);
    if (isfinite(event->bytes))
        fprintf(out, ", \"bytes\": %.0f", event->bytes);
    if (event->rank >= 0)
        fprintf(out, ", \"rank\": %d", event->rank);
    if (event->redone > 0)
        fprintf(out, ", \"redone\": %ld", event->redone);
    put_member(out, "host", event->host);
    put_member(out, "allocation", event->allocation);
    put_spent(out, event->spent);
    put_member(out, "text", event->text);
    fputs("}\n", out);
}

static void put_array(FILE *out, const char *key, const double *values,
                      size_t count)
{
    fprintf(out, ", \"%s\": ", key);
    if (!values) {
        fputs("null", out);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        fputs(i == 0 ? "[" : ", ", out);
        put_number(out, values[i]);
    }
    putc(']', out);
}

void dt_ranks_print(const struct dt_report_ranks *ranks, FILE *out)
{
    const size_t n = ranks->count;
    fprintf(out, "{\"step\": %ld", ranks->step);
    put_wall(out, ranks->wall);
    put_array(out, "compute_s", ranks->compute_s, n);
    put_array(out, "comm_s", ranks->comm_s, n);
    put_array(out, "data_wait_s", ranks->data_wait_s, n);
    put_array(out, "mem", ranks->mem, n);
    put_array(out, "power_w", ranks->power_w, n);
    fputs("}\n", out);
}
