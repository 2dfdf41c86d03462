/* SPDX-License-Identifier: Apache-2.0 */
/* verify.c - checks a checkpoint against its checksums */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "ckpt/ckpt_impl.h"

enum {
    MAX_SUMS_BYTES = 1 << 20,
    READ_BYTES = 1 << 20,
    SUM_DIGITS = 16,
    MAX_INDEX_BYTES = 100 * 1000 * 1000,
};

/* The checksums.txt of the directory `dir`. */
struct sums {
    const char *dir;
    char *text;
    bool sealed; /* it ends with a checksum of its own lines */
};

/* --- one file --- */

static ssize_t read_some(int fd, void *data, size_t bytes)
{
    if (dt_fault("ckpt.read")) {
        errno = EIO;
        return -1;
    }
    return read(fd, data, bytes);
}

static int hash_fd(int fd, const char *path, const struct dt_ckpt_watch *watch,
                   uint64_t *xxh3, struct dt_error *err)
{
    XXH3_state_t *state = XXH3_createState();
    char *data = malloc(READ_BYTES);
    ssize_t n = -1;
    if (!state || !data) {
        dt_error_set(err, EX_OSERR, "%s: out of memory", path);
        goto done;
    }
    XXH3_64bits_reset(state);
    while ((n = read_some(fd, data, READ_BYTES)) > 0 ||
           (n < 0 && errno == EINTR)) {
        if (n > 0)
            XXH3_64bits_update(state, data, (size_t)n);
        if (watch && watch->stop && watch->stop()) {
            n = dt_error_set(err, EX_TEMPFAIL, "%s: stopped by a signal", path);
            goto done;
        }
    }
    if (n < 0)
        dt_error_set(err, EX_IOERR, "%s: cannot read: %s", path,
                     strerror(errno));
    *xxh3 = XXH3_64bits_digest(state);
done:
    free(data);
    XXH3_freeState(state);
    return n < 0 ? -1 : 0;
}

static int verify_file(const char *dir, const char *name, uint64_t expected,
                       const struct dt_ckpt_watch *watch, struct dt_error *err)
{
    uint64_t found = 0;
    char *path = dt_ckpt_format(err, "%s/%s", dir, name);
    int fd = path ? dt_file_open(path, err) : -1;
    int rc = fd < 0 ? -1 : hash_fd(fd, path, watch, &found, err);
    if (fd >= 0)
        close(fd);
    if (rc == 0 && found != expected)
        rc = dt_error_set(err, EX_DATAERR,
                          "%s: checksum %016" PRIx64 ", expected %016" PRIx64,
                          path, found, expected);
    free(path);
    return rc;
}

/* --- the list --- */

/* Checks and cuts off the last line, the checksum of the lines above. Older
 * versions wrote checkpoints without it. -1: it does not match.
 */
static int cut_seal(struct sums *sums)
{
    char *seal = strstr(sums->text, SUMS_SEAL);
    if (!seal)
        return 0;
    const char *digits = seal + strlen(SUMS_SEAL);
    size_t above = (size_t)(seal - sums->text);
    if (strspn(digits, "0123456789abcdef") != SUM_DIGITS ||
        strcmp(digits + SUM_DIGITS, "\n") != 0 ||
        strtoull(digits, NULL, 16) != XXH3_64bits(sums->text, above))
        return -1;
    *seal = '\0';
    sums->sealed = true;
    return 0;
}

/* "file" or "folder/file", at any depth, and nothing above the directory. */
static bool is_below(const char *name)
{
    if (!strchr(name, '/'))
        return true;
    for (const char *part = name; part; part = strchr(part, '/')) {
        part += part > name;
        if (*part == '.' || *part == '/' || *part == '\0')
            return false;
    }
    return true;
}

/* Parses "XXH3 (NAME) = HEX" in place. -1: the line has another form. */
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
    return is_below(*name) ? 0 : -1;
}

/* Whether a name is listed; `end` is ')' for a file, '/' for files of a folder.
 */
static bool lists(const struct sums *sums, const char *name, char end)
{
    size_t n = strlen(name);
    for (const char *at = sums->text; (at = strstr(at, name)); at += n)
        if (at > sums->text && at[-1] == '(' && at[n] == end)
            return true;
    return false;
}

static bool lists_file(const struct sums *sums, const char *name)
{
    return lists(sums, name, ')');
}

/* Whether a run reads this file of a checkpoint, so that it must be listed.
 * Without a seal, a lost line would go unnoticed, so all JSON files must be.
 */
static bool is_read(const struct sums *sums, const char *name)
{
    return dt_str_ends_with(name, ".safetensors") ||
           dt_str_ends_with(name, ".safetensors.index.json") ||
           (!sums->sealed && dt_str_ends_with(name, ".json"));
}

/* Checks that every file that a run reads is listed, in the folder "<name>/",
 * or in the directory itself if `folder` is "".
 */
static int check_folder(const struct sums *sums, const char *folder,
                        struct dt_error *err)
{
    struct dirent **entries;
    char *dir =
        dt_ckpt_format(err, "%s%s%s", sums->dir, *folder ? "/" : "", folder);
    int n = dir ? dt_ckpt_list(dir, &entries, NULL, err) : -1;
    int rc = n < 0 ? -1 : 0;
    for (int i = 0; i < n && rc == 0; i++) {
        char name[2 * NAME_MAX + 2];
        snprintf(name, sizeof(name), "%s%s", folder, entries[i]->d_name);
        if (is_read(sums, name) && !lists_file(sums, name))
            rc =
                dt_error_set(err, EX_DATAERR, "%s/%s: not listed in " SUMS_NAME,
                             sums->dir, name);
        else if (!*folder && lists(sums, name, '/'))
            rc = check_folder(sums, strcat(name, "/"), err);
    }
    if (dir)
        dt_ckpt_free_list(entries, n);
    free(dir);
    return rc;
}

/* --- files that belong together --- */

enum { NAME_BYTES = 2 * NAME_MAX + 2 };

/* Copies the name in the next line that has one, and moves *at past it. False
 * at the end.
 */
static bool next_name(const char **at, char name[NAME_BYTES])
{
    const char *open = strchr(*at, '('), *close;
    if (!open || !(close = strstr(open, ") = ")))
        return false;
    snprintf(name, NAME_BYTES, "%.*s", (int)(close - open - 1), open + 1);
    *at = close;
    return true;
}

/* A file "<head>00000-of-00002<tail>"; `of` 0: it is of no series. */
struct member {
    char head[NAME_BYTES], tail[NAME_BYTES];
    long of;
};

static struct member member_of(const char *name)
{
    static const char of[] = "-of-", digits[] = "0123456789";
    struct member member = {"", "", 0};
    const char *middle = strstr(name, of);
    size_t head = middle ? (size_t)(middle - name) : 0;
    while (head > 0 && strchr(digits, name[head - 1]))
        head--;
    if (!middle || name + head == middle ||
        !strspn(middle + strlen(of), digits))
        return member;
    char *end;
    member.of = strtol(middle + strlen(of), &end, 10);
    snprintf(member.head, sizeof(member.head), "%.*s", (int)head, name);
    snprintf(member.tail, sizeof(member.tail), "%s", end);
    return member;
}

static bool is_same_series(const struct member *a, const struct member *b)
{
    return strcmp(a->head, b->head) == 0 && strcmp(a->tail, b->tail) == 0;
}

/* Checks that as many files of the series of `name` are listed as it says. */
static int check_member(const struct sums *sums, const char *name,
                        const struct member *member, struct dt_error *err)
{
    char other[NAME_BYTES];
    long count = 0;
    for (const char *at = sums->text; next_name(&at, other);) {
        const struct member is = member_of(other);
        count += is.of > 0 && is_same_series(&is, member);
    }
    if (count == member->of)
        return 0;
    return dt_error_set(err, EX_DATAERR,
                        "%s: not whole: %s is one of %ld files, and " SUMS_NAME
                        " lists %ld of this kind",
                        sums->dir, name, member->of, count);
}

/* Checks that the list has all files of each series: the shards of a model, and
 * the ranks' parts of the optimizer.
 */
static int check_series(const struct sums *sums, struct dt_error *err)
{
    char name[NAME_BYTES];
    struct member last = {"", "", 0};
    for (const char *at = sums->text; next_name(&at, name);) {
        const struct member member = member_of(name);
        bool known = member.of == last.of && is_same_series(&member, &last);
        if (member.of > 0 && !known &&
            check_member(sums, name, &member, err) < 0)
            return -1;
        last = member;
    }
    return 0;
}

/* Checks that every file in which the index `name` places tensors is listed in
 * the same folder.
 */
static int check_index(const struct sums *sums, const char *name,
                       struct dt_error *err)
{
    const char *slash = strrchr(name, '/'), *tensor;
    char file[NAME_BYTES];
    json_t *value;
    char *path = dt_ckpt_format(err, "%s/%s", sums->dir, name);
    char *text = path ? dt_file_read(path, MAX_INDEX_BYTES, err) : NULL;
    json_t *root = text ? dt_json_parse(path, text, err) : NULL;
    int rc = root ? 0 : -1;
    json_object_foreach(json_object_get(root, "weight_map"), tensor, value)
    {
        const char *is = json_string_value(value);
        bool named = is && *is;
        snprintf(file, sizeof(file), "%.*s%s",
                 slash ? (int)(slash + 1 - name) : 0, name, named ? is : "");
        if (rc == 0 && !(named && lists_file(sums, file)))
            rc = dt_error_set(err, EX_DATAERR,
                              "%s: not whole: %s has %s in %s, which " SUMS_NAME
                              " does not list",
                              sums->dir, name, tensor, named ? is : "no file");
    }
    json_decref(root);
    free(text);
    free(path);
    return rc;
}

static int check_indices(const struct sums *sums, struct dt_error *err)
{
    char name[NAME_BYTES];
    for (const char *at = sums->text; next_name(&at, name);)
        if (dt_str_ends_with(name, ".safetensors.index.json") &&
            check_index(sums, name, err) < 0)
            return -1;
    return 0;
}

/* Checks that checksums.txt lists a model, every file that a run reads, and
 * each series in full.
 */
static int check_list(const struct sums *sums, struct dt_error *err)
{
    if (check_folder(sums, "", err) < 0)
        return -1;
    if (!lists_file(sums, "model.safetensors") &&
        !lists_file(sums, "model.safetensors.index.json") &&
        !lists_file(sums, "adapter_model.safetensors"))
        return dt_error_set(err, EX_DATAERR, "%s/%s: lists no model", sums->dir,
                            SUMS_NAME);
    if (lists_file(sums, "trainer_state.json") &&
        !strstr(sums->text, "(optim-rank-"))
        return dt_error_set(err, EX_DATAERR,
                            "%s: not whole: " SUMS_NAME
                            " lists trainer_state.json and no file of the "
                            "optimizer",
                            sums->dir);
    return check_series(sums, err) < 0 ? -1 : check_indices(sums, err);
}

/* --- the files that are listed --- */

int dt_ckpt_each_sum(const char *dir, const char *text,
                     int (*use)(void *ctx, const struct dt_ckpt_sum *sum,
                                struct dt_error *err),
                     void *ctx, struct dt_error *err)
{
    struct dt_ckpt_sum sum = {.number = 0};
    int rc = 0;
    for (const char *at = text, *end; rc == 0 && *at; at = end + 1) {
        end = strchr(at, '\n');
        char *copy = end ? strndup(at, (size_t)(end - at)) : NULL;
        if (end && !copy)
            rc = dt_error_set(err, EX_OSERR, "%s: out of memory", dir);
        else if (!end || parse_sum(copy, &sum.name, &sum.xxh3) < 0)
            rc = dt_error_set(err, EX_DATAERR,
                              "%s/%s:%d: expected "
                              "\"XXH3 (file) = 16 hex digits\"",
                              dir, SUMS_NAME, sum.number + 1);
        else
            rc = use(ctx, &sum, err);
        free(copy);
        if (!end)
            break;
        sum.number++;
    }
    return rc;
}

int dt_ckpt_is_there(void *ctx, const struct dt_ckpt_sum *sum,
                     struct dt_error *err)
{
    char *path = dt_ckpt_format(err, "%s/%s", (const char *)ctx, sum->name);
    int rc = path ? 0 : -1;
    if (path && access(path, F_OK) < 0 && dt_file_is_missing(errno))
        rc = dt_error_set(err, EX_NOINPUT, "%s: cannot open: %s", path,
                          strerror(errno));
    free(path);
    return rc;
}

char *dt_ckpt_read_sums(const char *path, struct dt_error *err)
{
    struct sums sums = {.dir = path};
    char *file = dt_ckpt_format(err, "%s/%s", path, SUMS_NAME);
    sums.text = file ? dt_file_read(file, MAX_SUMS_BYTES, err) : NULL;
    int rc = -1;
    if (sums.text && !*sums.text)
        dt_error_set(err, EX_DATAERR, "%s: empty", file);
    else if (sums.text && cut_seal(&sums) < 0)
        dt_error_set(err, EX_DATAERR,
                     "%s: its last line is not the checksum of the "
                     "lines above",
                     file);
    else if (sums.text && check_list(&sums, err) == 0)
        rc = dt_ckpt_each_sum(path, sums.text, dt_ckpt_is_there, (void *)path,
                              err);
    free(file);
    if (rc == 0)
        return sums.text;
    free(sums.text);
    return NULL;
}

/* What a rank compares. */
struct share {
    const char *dir;
    int rank, world;
    const struct dt_ckpt_watch *watch;
};

static int verify_line(void *ctx, const struct dt_ckpt_sum *sum,
                       struct dt_error *err)
{
    static const char optim[] = "optim-rank-";
    const struct share *share = ctx;
    const char *of_rank = strstr(sum->name, optim);
    long owner =
        of_rank ? strtol(of_rank + strlen(optim), NULL, 10) : sum->number;
    return owner % share->world == share->rank
               ? verify_file(share->dir, sum->name, sum->xxh3, share->watch,
                             err)
               : 0;
}

int dt_ckpt_verify_share(const char *path, const char *sums, int rank,
                         int world, const struct dt_ckpt_watch *watch,
                         struct dt_error *err)
{
    struct share share = {path, rank, world, watch};
    return dt_ckpt_each_sum(path, sums, verify_line, &share, err);
}

int dt_ckpt_verify(const char *path, const struct dt_ckpt_watch *watch,
                   struct dt_error *err)
{
    char *sums = dt_ckpt_read_sums(path, err);
    int rc = sums ? dt_ckpt_verify_share(path, sums, 0, 1, watch, err) : -1;
    free(sums);
    return rc;
}

/* --- all there are --- */

/* As dt_ckpt_survey in the directory `root`. Returns how many there are. */
static int survey_root(const char *root,
                       void (*tell)(void *ctx, const char *path,
                                    const struct dt_error *why),
                       void *ctx, struct dt_error *err)
{
    struct dirent **entries;
    struct dt_error why;
    int n = dt_ckpt_list(root, &entries, dt_ckpt_is_step, err);
    for (int i = 0; i < n; i++) {
        char *path = dt_ckpt_format(&why, "%s/%s", root, entries[i]->d_name);
        int rc = path ? dt_ckpt_verify(path, NULL, &why) : -1;
        tell(ctx, path ? path : root, rc < 0 ? &why : NULL);
        free(path);
    }
    dt_ckpt_free_list(entries, n);
    return n;
}

int dt_ckpt_survey(const char *path,
                   void (*tell)(void *ctx, const char *path,
                                const struct dt_error *why),
                   void *ctx, struct dt_error *err)
{
    struct dt_error why;
    char *below = dt_ckpt_format(err, "%s/checkpoints", path);
    int n = below ? survey_root(path, tell, ctx, err) : -1;
    if (n == 0)
        n = survey_root(below, tell, ctx, err);
    free(below);
    if (n != 0)
        return n < 0 ? -1 : 0;
    if (dt_ckpt_step(path) < 0 && dt_ckpt_check_path(path, err) < 0)
        return -1;
    int rc = dt_ckpt_verify(path, NULL, &why);
    tell(ctx, path, rc < 0 ? &why : NULL);
    return 0;
}
