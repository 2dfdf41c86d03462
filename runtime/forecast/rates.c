/* SPDX-License-Identifier: Apache-2.0 */
/* rates.c - the rates of known devices, and files of rates */
#include "config.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/str.h"
#include "forecast/rates.h"

enum { FILE_MAX = 1 << 16 };

enum dimension { FLOPS, BYTES_A_SECOND, SECONDS, BYTES };

static const struct {
    const char *name;
    enum dimension dimension;
    bool shared; /* by the ranks of a node without GPUs */
} rates_table[DT_RATES] = {
    [DT_RATE_BLOCKS_FP32] = {"blocks_fp32", FLOPS, true},
    [DT_RATE_BLOCKS_BF16] = {"blocks_bf16", FLOPS, true},
    [DT_RATE_HEAD_FP32] = {"head_fp32", FLOPS, true},
    [DT_RATE_HEAD_BF16] = {"head_bf16", FLOPS, true},
    [DT_RATE_MEMORY] = {"memory", BYTES_A_SECOND, true},
    [DT_RATE_NODE] = {"node", BYTES_A_SECOND, true},
    [DT_RATE_NODE_CALL] = {"node_call", SECONDS, false},
    [DT_RATE_NETWORK] = {"network", BYTES_A_SECOND, false},
    [DT_RATE_NETWORK_CALL] = {"network_call", SECONDS, false},
    [DT_RATE_SENDING] = {"sending", BYTES_A_SECOND, true},
    [DT_RATE_PCIE_UP] = {"pcie_up", BYTES_A_SECOND, false},
    [DT_RATE_PCIE_DOWN] = {"pcie_down", BYTES_A_SECOND, false},
    [DT_RATE_HOST_MEMORY] = {"host_memory", BYTES_A_SECOND, false},
    [DT_RATE_DRIVE_READ] = {"drive_read", BYTES_A_SECOND, false},
    [DT_RATE_DRIVE_WRITE] = {"drive_write", BYTES_A_SECOND, false},
    [DT_RATE_GPU_MEMORY] = {"gpu_memory", BYTES, false},
};

/* The first unit of a dimension is the one that is written. */
static const struct {
    const char *name;
    enum dimension dimension;
    double factor;
} units[] = {
    {"GFLOP/s", FLOPS, 1e9},
    {"TFLOP/s", FLOPS, 1e12},
    {"GB/s", BYTES_A_SECOND, 1e9},
    {"MB/s", BYTES_A_SECOND, 1e6},
    {"GiB/s", BYTES_A_SECOND, 0x1p30},
    {"Gb/s", BYTES_A_SECOND, 1e9 / 8},
    {"us", SECONDS, 1e-6},
    {"ms", SECONDS, 1e-3},
    {"GiB", BYTES, 0x1p30},
    {"GB", BYTES, 1e9},
};
enum { UNITS = sizeof(units) / sizeof(units[0]) };

/* --- known devices --- */

/* GPUs: rates that blocks and heads reach of dense bf16 (989 and 312 TFLOP/s),
 * AdamW of memory bandwidth, and NCCL of NVLink's, all estimates; a network of
 * 400 or 200 Gb/s per node at 92 %. CPU: two cores of a server, and 10 Gb/s.
 */
static const struct dt_rates known[] = {
    {.from = "h100",
     .gpu = true,
     .ranks_per_node = 8,
     .of = {550e12 / 12, 550e12, 600e12 / 12, 600e12, 2.8e12, 350e9, 25e-6,
            46e9, 60e-6, 0, 54.8e9, 46.8e9, 400e9, 10e9, 5e9, 79.6 * 0x1p30}},
    {.from = "h200",
     .gpu = true,
     .ranks_per_node = 8,
     .of = {550e12 / 12, 550e12, 600e12 / 12, 600e12, 4.1e12, 350e9, 25e-6,
            46e9, 60e-6, 0, 54.8e9, 46.8e9, 400e9, 10e9, 5e9, 140.4 * 0x1p30}},
    {.from = "a100",
     .gpu = true,
     .ranks_per_node = 8,
     .of = {180e12 / 13, 180e12, 200e12 / 13, 200e12, 1.6e12, 220e9, 25e-6,
            23e9, 60e-6, 0, 24e9, 22e9, 200e9, 10e9, 5e9, 80 * 0x1p30}},
    {.from = "cpu",
     .ranks_per_node = 1,
     .of = {100e9, 80e9, 100e9, 80e9, 20e9, 1e9, 100e-6, 1.15e9, 200e-6, 2e9, 0,
            0, 20e9, 2e9, 1e9, 0}},
};
enum { KNOWN = sizeof(known) / sizeof(known[0]) };

bool dt_rates_known(const char *name, struct dt_rates *rates,
                    const char **names)
{
    *names = "h100, h200, a100 or cpu";
    for (size_t i = 0; i < KNOWN; i++)
        if (strcmp(name, known[i].from) == 0) {
            *rates = known[i];
            return true;
        }
    return false;
}

bool dt_rates_of_device(const char *description, bool gpu,
                        struct dt_rates *rates)
{
    static const char *const others[] = {"PCIe", "NVL", "MIG"};
    static const char maker[] = "NVIDIA ";
    const size_t n = sizeof(maker) - 1;
    const char *names;
    if (!gpu)
        return dt_rates_known("cpu", rates, &names);
    if (strncmp(description, maker, n) != 0)
        return false;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (strstr(description, others[i]))
            return false;
    for (size_t i = 0; i < KNOWN; i++) {
        const size_t length = strlen(known[i].from);
        const char *model = description + n;
        if (known[i].gpu && strncasecmp(model, known[i].from, length) == 0 &&
            !isalnum((unsigned char)model[length])) {
            *rates = known[i];
            return true;
        }
    }
    return false;
}

const char *dt_rate_name(enum dt_rate rate)
{
    return rates_table[rate].name;
}

bool dt_rates_has(const struct dt_rates *rates, enum dt_rate rate)
{
    return rates->of[rate] > 0;
}

/* --- files --- */

/* A file that is being read. */
struct reader {
    const char *path;
    struct dt_rates *rates;
    struct dt_error *err;
    int line, mistakes;
    bool like;
};

/* A word of a line, and where it begins. */
struct word {
    char text[64];
    int column;
};

#define MISTAKE(reader, word, ...)                                             \
    do {                                                                       \
        char mistake_[256];                                                    \
        snprintf(mistake_, sizeof(mistake_), __VA_ARGS__);                     \
        add_mistake(reader, word, mistake_);                                   \
    } while (0)

static void add_mistake(struct reader *reader, const struct word *at,
                        const char *what)
{
    if (reader->mistakes++ == 0)
        *reader->err = (struct dt_error){0};
    dt_error_add(reader->err, EX_DATAERR, "%s:%d:%d: %s", reader->path,
                 reader->line, at->column, what);
}

/* Takes the next word, up to a blank or `end`, off the line. */
static struct word next_word(const char *line, size_t *at, char end)
{
    struct word word = {.text = ""};
    size_t n = 0;
    while (isspace((unsigned char)line[*at]))
        ++*at;
    word.column = (int)*at + 1;
    while (line[*at] && line[*at] != '#' && line[*at] != end &&
           !isspace((unsigned char)line[*at])) {
        if (n + 1 < sizeof(word.text))
            word.text[n++] =
                iscntrl((unsigned char)line[*at]) ? '?' : line[*at];
        ++*at;
    }
    word.text[n] = '\0';
    return word;
}

static const char *expected_units(enum dimension dimension)
{
    static const char *const text[] = {
        [FLOPS] = "GFLOP/s or TFLOP/s",
        [BYTES_A_SECOND] = "GB/s, MB/s, GiB/s or Gb/s",
        [SECONDS] = "us or ms",
        [BYTES] = "GiB or GB",
    };
    return text[dimension];
}

/* The number of a word, above 0; or 0 after a mistake. */
static double read_number(struct reader *reader, const struct word *word)
{
    char *end;
    double value = strtod(word->text, &end);
    if (word->text[0] && *end == '\0' && isfinite(value) && value > 0)
        return value;
    MISTAKE(reader, word, "expected a number above 0, got '%s'", word->text);
    return 0;
}

static void read_rate(struct reader *reader, enum dt_rate rate,
                      const struct word *number, const struct word *unit)
{
    double value = read_number(reader, number);
    for (size_t i = 0; value > 0 && i < UNITS; i++)
        if (units[i].dimension == rates_table[rate].dimension &&
            strcmp(units[i].name, unit->text) == 0) {
            reader->rates->of[rate] = value * units[i].factor;
            if (!isnormal(reader->rates->of[rate]))
                MISTAKE(reader, number, "'%s' is out of range", number->text);
            return;
        }
    if (value > 0)
        MISTAKE(reader, unit, "%s: expected the unit %s, got '%s'",
                rates_table[rate].name,
                expected_units(rates_table[rate].dimension), unit->text);
}

static void read_like(struct reader *reader, const struct word *value)
{
    struct dt_rates rates;
    const char *names;
    if (!dt_rates_known(value->text, &rates, &names)) {
        MISTAKE(reader, value, "like: expected %s, got '%s'", names,
                value->text);
        return;
    }
    for (int i = 0; i < DT_RATES; i++)
        if (!dt_rates_has(reader->rates, (enum dt_rate)i))
            reader->rates->of[i] = rates.of[i];
    reader->rates->gpu |= rates.gpu;
    if (reader->rates->ranks_per_node == 0)
        reader->rates->ranks_per_node = rates.ranks_per_node;
    reader->like = true;
}

static void read_device(struct reader *reader, const struct word *value)
{
    reader->rates->gpu = strcmp(value->text, "cuda") == 0;
    if (!reader->rates->gpu && strcmp(value->text, "cpu") != 0)
        MISTAKE(reader, value, "device: expected cpu or cuda, got '%s'",
                value->text);
}

static void read_ranks(struct reader *reader, const struct word *value)
{
    char *end;
    long ranks = strtol(value->text, &end, 10);
    if (!value->text[0] || *end || ranks < 1 || ranks > 1000000)
        MISTAKE(reader, value,
                "ranks_per_node: expected a number from 1 to 1000000, got '%s'",
                value->text);
    else
        reader->rates->ranks_per_node = ranks;
}

static void unknown_key(struct reader *reader, const struct word *key)
{
    const char *names[DT_RATES + 3] = {"like", "device", "ranks_per_node"};
    for (int i = 0; i < DT_RATES; i++)
        names[i + 3] = rates_table[i].name;
    const char *nearest = dt_str_nearest(key->text, names, DT_RATES + 3);
    MISTAKE(reader, key, "unknown rate '%s'%s%s%s", key->text,
            nearest ? "; did you mean '" : "", nearest ? nearest : "",
            nearest ? "'?" : "");
}

static void read_value(struct reader *reader, const struct word *key,
                       const struct word *value, const struct word *unit)
{
    if (strcmp(key->text, "like") == 0) {
        read_like(reader, value);
    } else if (strcmp(key->text, "device") == 0) {
        read_device(reader, value);
    } else if (strcmp(key->text, "ranks_per_node") == 0) {
        read_ranks(reader, value);
    } else {
        for (int i = 0; i < DT_RATES; i++)
            if (strcmp(key->text, rates_table[i].name) == 0) {
                read_rate(reader, (enum dt_rate)i, value, unit);
                return;
            }
        unknown_key(reader, key);
    }
}

static void read_line(struct reader *reader, const char *line)
{
    size_t at = 0;
    struct word key = next_word(line, &at, ':');
    if (!key.text[0] && line[at] != ':')
        return;
    if (line[at] != ':') {
        MISTAKE(reader, &key, "expected 'name: number unit', got '%s'",
                key.text);
        return;
    }
    at++;
    struct word value = next_word(line, &at, '\0');
    struct word unit = next_word(line, &at, '\0');
    struct word more = next_word(line, &at, '\0');
    if (more.text[0])
        MISTAKE(reader, &more, "unexpected '%s'", more.text);
    else
        read_value(reader, &key, &value, &unit);
}

/* A forecast needs these at least. */
static void check_complete(struct reader *reader)
{
    static const enum dt_rate needed[] = {DT_RATE_MEMORY};
    const struct word end = {.column = 1};
    const struct dt_rates *rates = reader->rates;
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
        if (!dt_rates_has(rates, needed[i]))
            MISTAKE(reader, &end, "%s is missing; add it, or 'like: NAME'",
                    dt_rate_name(needed[i]));
    if (!dt_rates_has(rates, DT_RATE_BLOCKS_FP32) &&
        !dt_rates_has(rates, DT_RATE_BLOCKS_BF16))
        MISTAKE(reader, &end,
                "blocks_fp32 or blocks_bf16 is missing; add one, or 'like: "
                "NAME'");
}

int dt_rates_parse(const char *path, char *text, struct dt_rates *rates,
                   struct dt_error *err)
{
    struct dt_error late;
    struct reader reader = {path, rates, err ? err : &late, 0, 0, false};
    *rates = (struct dt_rates){0};
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;) {
        reader.line++;
        read_line(&reader, line);
    }
    if (reader.mistakes == 0)
        check_complete(&reader);
    if (rates->ranks_per_node == 0)
        rates->ranks_per_node = 1;
    rates->measured = !reader.like;
    snprintf(rates->from, sizeof(rates->from), "%s", path);
    return reader.mistakes > 0 ? -1 : 0;
}

int dt_rates_load(const char *path, struct dt_rates *rates,
                  struct dt_error *err)
{
    char *text = dt_file_read(path, FILE_MAX, err);
    int rc = text ? dt_rates_parse(path, text, rates, err) : -1;
    free(text);
    return rc;
}

void dt_rates_print(const struct dt_rates *rates, FILE *out)
{
    fprintf(out, "device: %s\nranks_per_node: %ld\n",
            rates->gpu ? "cuda" : "cpu", rates->ranks_per_node);
    for (int i = 0; i < DT_RATES; i++)
        for (size_t u = 0; u < UNITS; u++)
            if (units[u].dimension == rates_table[i].dimension) {
                if (dt_rates_has(rates, (enum dt_rate)i))
                    fprintf(out, "%s: %.4g %s\n", rates_table[i].name,
                            rates->of[i] / units[u].factor, units[u].name);
                break;
            }
}

/* --- use --- */

struct dt_rates dt_rates_for(const struct dt_rates *rates, int ranks)
{
    struct dt_rates each = *rates;
    if (rates->gpu)
        return each;
    for (int i = 0; i < DT_RATES; i++)
        if (rates_table[i].shared)
            each.of[i] *= (double)rates->ranks_per_node / ranks;
    each.ranks_per_node = ranks;
    return each;
}

/* One type stands in for the other if only that was measured. */
static double either(double wanted, double other)
{
    return wanted > 0 ? wanted : other;
}

double dt_rates_blocks(const struct dt_rates *rates, enum dt_dtype type)
{
    const double *of = rates->of;
    return type == DT_F32
               ? either(of[DT_RATE_BLOCKS_FP32], of[DT_RATE_BLOCKS_BF16])
               : either(of[DT_RATE_BLOCKS_BF16], of[DT_RATE_BLOCKS_FP32]);
}

double dt_rates_head(const struct dt_rates *rates, enum dt_dtype type)
{
    const double *of = rates->of;
    double head = type == DT_F32
                      ? either(of[DT_RATE_HEAD_FP32], of[DT_RATE_HEAD_BF16])
                      : either(of[DT_RATE_HEAD_BF16], of[DT_RATE_HEAD_FP32]);
    return either(head, dt_rates_blocks(rates, type));
}
