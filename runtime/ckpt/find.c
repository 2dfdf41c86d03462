/* SPDX-License-Identifier: Apache-2.0 */
/* find.c - which checkpoints there are, and which of them are whole */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/file.h"
#include "ckpt/checkpoint_impl.h"

enum {
    MAX_SUMS_BYTES = 1 << 20,
    READ_BYTES = 1 << 20,
    SUM_DIGITS = 16,
};

/* --- what is under root --- */

long dt_ckpt_step_of(const char *name)
{
    const char *digits = name + strlen(STEP_PREFIX);
    if (strncmp(name, STEP_PREFIX, strlen(STEP_PREFIX)) != 0 ||
        strspn(digits, "0123456789") != strlen(digits) || !*digits ||
        (digits[0] == '0' && digits[1]))
        return -1;
    errno = 0;
    long step = strtol(digits, NULL, 10);
    return errno ? -1 : step;
}

int dt_ckpt_is_step(const struct dirent *entry)
{
    return dt_ckpt_step_of(entry->d_name) >= 0;
}

int dt_ckpt_is_temp(const struct dirent *entry)
{
    return strncmp(entry->d_name, TEMP_PREFIX, strlen(TEMP_PREFIX)) == 0;
}

static int newest_first(const struct dirent **a, const struct dirent **b)
{
    long x = dt_ckpt_step_of((*a)->d_name), y = dt_ckpt_step_of((*b)->d_name);
    return (x < y) - (x > y);
}

int dt_ckpt_list(const char *root, struct dirent ***entries,
                 int (*keep)(const struct dirent *), struct dt_error *err)
{
    *entries = NULL;
    int n = scandir(root, entries, keep, newest_first);
    if (n >= 0)
        return n;
    if (errno == ENOENT)
        return 0;
    return dt_error_set(err, EX_NOINPUT, "%s: cannot list: %s", root,
                        strerror(errno));
}

void dt_ckpt_free_list(struct dirent **entries, int n)
{
    for (int i = 0; i < n; i++)
        free(entries[i]);
    free(entries);
}

/* --- verifying --- */

static int hash_fd(int fd, const char *path, uint64_t *xxh3,
                   struct dt_error *err)
{
    XXH3_state_t *state = XXH3_createState();
    char *data = malloc(READ_BYTES);
    ssize_t n = -1;
    if (!state || !data) {
        dt_error_set(err, EX_OSERR, "%s: out of memory", path);
        goto done;
    }
    XXH3_64bits_reset(state);
    while ((n = read(fd, data, READ_BYTES)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0)
            XXH3_64bits_update(state, data, (size_t)n);
    if (n < 0)
        dt_error_set(err, EX_DATAERR, "%s: cannot read: %s", path,
                     strerror(errno));
    *xxh3 = XXH3_64bits_digest(state);
done:
    free(data);
    XXH3_freeState(state);
    return n < 0 ? -1 : 0;
}

static int verify_file(const char *dir, const char *name, uint64_t expected,
                       struct dt_error *err)
{
    uint64_t found;
    char *path = dt_ckpt_format(err, "%s/%s", dir, name);
    if (!path)
        return -1;
    int rc = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        dt_error_set(err, EX_DATAERR, "%s: cannot open: %s", path,
                     strerror(errno));
    else if (hash_fd(fd, path, &found, err) == 0)
        rc = found == expected
                 ? 0
                 : dt_error_set(err, EX_DATAERR,
                                "%s: damaged: checksum %016" PRIx64
                                ", expected %016" PRIx64,
                                path, found, expected);
    if (fd >= 0)
        close(fd);
    free(path);
    return rc;
}

/* Cuts "XXH3 (NAME) = HEX" into its parts. -1 if it is none. */
static int parse_sum(char *line, char **name, uint64_t *xxh3)
{
    static const char head[] = "XXH3 (", middle[] = ") = ";
    size_t n = strlen(line), tail = strlen(middle) + SUM_DIGITS;
    if (n <= strlen(head) + tail || strncmp(line, head, strlen(head)) != 0)
        return -1;
    char *end = line + n - tail, *digits = end + strlen(middle);
    if (strncmp(end, middle, strlen(middle)) != 0 ||
        strspn(digits, "0123456789abcdef") != SUM_DIGITS)
        return -1;
    *end = '\0';
    *name = line + strlen(head);
    *xxh3 = strtoull(digits, NULL, 16);
    return strchr(*name, '/') ? -1 : 0;
}

static int verify_sums(const char *dir, char *text, struct dt_error *err)
{
    char *name;
    uint64_t xxh3;
    if (!*text)
        return dt_error_set(err, EX_DATAERR, "%s/%s: empty", dir, SUMS_NAME);
    for (int number = 1; *text; number++) {
        char *end = strchr(text, '\n');
        if (end)
            *end = '\0';
        if (!end || parse_sum(text, &name, &xxh3) < 0)
            return dt_error_set(err, EX_DATAERR,
                                "%s/%s:%d: expected "
                                "\"XXH3 (file) = 16 hex digits\"",
                                dir, SUMS_NAME, number);
        if (verify_file(dir, name, xxh3, err) < 0)
            return -1;
        text = end + 1;
    }
    return 0;
}

int dt_ckpt_verify(const char *path, struct dt_error *err)
{
    char *sums = dt_ckpt_format(err, "%s/%s", path, SUMS_NAME);
    char *text = sums ? dt_file_read(sums, MAX_SUMS_BYTES, err) : NULL;
    int rc = text ? verify_sums(path, text, err) : -1;
    free(text);
    free(sums);
    return rc;
}

/* --- finding --- */

static int note_temps(const char *root,
                      void (*note)(void *ctx, const char *text), void *ctx,
                      struct dt_error *err)
{
    struct dirent **entries;
    int n = dt_ckpt_list(root, &entries, dt_ckpt_is_temp, err);
    int rc = n < 0 ? -1 : 0;
    for (int i = 0; i < n && rc == 0; i++) {
        char *text = dt_ckpt_format(err, "%s/%s: left by an interrupted save",
                                    root, entries[i]->d_name);
        if (text)
            note(ctx, text);
        else
            rc = -1;
        free(text);
    }
    dt_ckpt_free_list(entries, n);
    return rc;
}

/* Moves what `latest` names to the front: after a run went on from an older
 * checkpoint, a higher step may belong to the run that was given up.
 */
static void latest_first(const char *root, struct dirent **entries, int n)
{
    char link[PATH_MAX], target[NAME_MAX + 1];
    if (snprintf(link, sizeof(link), "%s/latest", root) >= (int)sizeof(link))
        return;
    ssize_t bytes = readlink(link, target, sizeof(target) - 1);
    if (bytes < 0)
        return;
    target[bytes] = '\0';
    for (int i = 0; i < n; i++) {
        struct dirent *entry = entries[i];
        if (strcmp(entry->d_name, target) != 0)
            continue;
        memmove(entries + 1, entries, (size_t)i * sizeof(*entries));
        entries[0] = entry;
    }
}

int dt_ckpt_find(const char *root, char **path,
                 void (*note)(void *ctx, const char *text), void *ctx,
                 struct dt_error *err)
{
    struct dirent **entries;
    struct dt_error why;
    *path = NULL;
    if (note && note_temps(root, note, ctx, err) < 0)
        return -1;
    int n = dt_ckpt_list(root, &entries, dt_ckpt_is_step, err);
    int rc = n < 0 ? -1 : 0;
    latest_first(root, entries, n);
    for (int i = 0; i < n && rc == 0 && !*path; i++) {
        *path = dt_ckpt_format(err, "%s/%s", root, entries[i]->d_name);
        if (!*path) {
            rc = -1;
        } else if (dt_ckpt_verify(*path, &why) < 0) {
            if (note)
                note(ctx, why.text);
            free(*path);
            *path = NULL;
        }
    }
    dt_ckpt_free_list(entries, n);
    return rc;
}
