/* SPDX-License-Identifier: Apache-2.0 */
/* examples_make.c - tokenizes the parts of a file in threads and joins them */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/str.h"
#include "data/data_impl.h"
#include "data/example.h"
#include "data/forms/forms.h"
#include "data/mask.h"
#include "data/row_images.h"

enum {
    PART_BYTES = 4 << 20, /* bytes of the file in one part, or more: */
    PARTS_MAX = 8192,     /* join_parts maps all parts at the same time */
    PART_NOTES = 8,       /* bad lines noted in each part */
    SHOWN = 3,            /* bad lines in an error */
    CACHE_NOTES = 32,     /* bad lines noted in the cache */
    TIMEOUT_S = 1800,     /* how long another process may make no progress */
};

#define LOOK_S 0.2 /* how often to check whether that process is done */

/* --- the limit of bad lines, and messages --- */

void dt_make_note(const struct dt_make *make, const char *fmt, ...)
{
    char text[DT_ERROR_TEXT_BYTES];
    va_list ap;
    if (!make->options->note)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    make->options->note(make->options->ctx, text);
}

/* The number of bad lines allowed among so many. */
static uint64_t bad_allowed(const struct dt_make *make, uint64_t lines)
{
    return (uint64_t)(make->options->bad_limit * (double)lines);
}

/* Adds the first of these notes to an error. Returns -1. */
static int show_notes(const struct dt_make *make, const char *notes,
                      size_t bytes, struct dt_error *err)
{
    const char *note = notes, *end = notes + bytes;
    for (int i = 0; i < SHOWN && note < end; i++) {
        dt_error_add(err, EX_DATAERR, "%s%s%s", make->path,
                     dt_kind_mark(&make->found), note);
        note += strlen(note) + 1;
    }
    return -1;
}

/* Says that so many bad lines are too many, with the first of the notes, each
 * `line: cause` and a NUL; later lines may be bad, too. -1: EX_DATAERR, always.
 */
static int refuse_bad(const struct dt_make *make, uint64_t bad,
                      const char *notes, size_t bytes, struct dt_error *err)
{
    dt_error_set(err, EX_DATAERR,
                 "%" PRIu64 " bad line%s of %s %s already more than the %g %% "
                 "allowed (data.bad_lines)",
                 bad, dt_str_plural(bad), make->path, bad == 1 ? "is" : "are",
                 100 * make->options->bad_limit);
    return show_notes(make, notes, bytes, err);
}

/* Checks the number of bad lines of a whole file, and that there is an example.
 * -1: EX_DATAERR.
 */
static int check_cache(const struct dt_make *make, const struct dt_cache *cache,
                       struct dt_error *err)
{
    const struct dt_cache_counts *counts = &cache->counts;
    if (counts->bad > bad_allowed(make, counts->lines)) {
        dt_error_set(err, EX_DATAERR,
                     "%" PRIu64 " of %" PRIu64 " lines of %s are bad, more "
                     "than the %g %% allowed (data.bad_lines)",
                     counts->bad, counts->lines, make->path,
                     100 * make->options->bad_limit);
        return show_notes(make, cache->notes, cache->notes_bytes, err);
    }
    if (cache->count == 0)
        return dt_error_set(err, EX_DATAERR, "%s: no example in it",
                            make->path);
    return 0;
}

/* Notes bad lines, renamed roles and seams. */
static void report_cache(const struct dt_make *make,
                         const struct dt_cache *cache)
{
    const char *note = cache->notes, *end = note + cache->notes_bytes;
    uint64_t told = 0;
    for (; note < end; note += strlen(note) + 1, told++)
        dt_make_note(make, "%s%s%s", make->path, dt_kind_mark(&make->found),
                     note);
    if (cache->counts.bad + cache->counts.dropped > told)
        dt_make_note(make, "%s: %" PRIu64 " more bad lines", make->path,
                     cache->counts.bad + cache->counts.dropped - told);
    if (cache->counts.dropped > 0)
        dt_make_note(make,
                     "%s: %" PRIu64 " of %" PRIu64
                     " lines are left out, as an image of theirs is missing or "
                     "bad (data.image_errors: drop)",
                     make->path, cache->counts.dropped, cache->counts.lines);
    if (cache->counts.renamed > 0)
        dt_make_note(make,
                     "%s: %" PRIu64 " messages from human and gpt are treated "
                     "as from user and assistant",
                     make->path, cache->counts.renamed);
    if (cache->counts.seams > 0)
        dt_make_note(make,
                     "%s: in %" PRIu64 " of %" PRIu64
                     " lines the end of the prompt has other tokens when a "
                     "completion follows, and the loss begins there: a prompt "
                     "alone is continued from tokens that were not trained; "
                     "let prompts end, or completions start, with a blank or "
                     "a new line, as the tokenizer expects it, and chat "
                     "templates write a prompt in one way",
                     make->path, cache->counts.seams, cache->counts.pairs);
}

/* --- the examples of a part --- */

/* The tokens of a part in memory. Starts zeroed, except `offsets`. */
struct draft {
    char *source; /* a copy of the part, which no other process can change */
    struct dt_marked marked;
    uint64_t *offsets; /* allocated by the caller, with one element, 0 */
    size_t count;      /* examples: offsets, except the first */
    size_t capacity;   /* room in offsets */
    struct dt_cache_counts counts;
    char *notes;
    size_t notes_bytes, note_count;
};

static void draft_fini(struct draft *draft)
{
    free(draft->source);
    free(draft->marked.tokens);
    free(draft->offsets);
    free(draft->notes);
}

static int end_example(struct draft *draft, struct dt_error *err)
{
    if (draft->count + 2 > draft->capacity) {
        size_t capacity = 2 * draft->capacity + 64;
        uint64_t *offsets =
            realloc(draft->offsets, capacity * sizeof(*offsets));
        if (!offsets)
            return dt_error_set(err, EX_OSERR, "out of memory");
        draft->offsets = offsets;
        draft->capacity = capacity;
    }
    draft->offsets[0] = 0;
    draft->offsets[++draft->count] = draft->marked.count;
    return 0;
}

/* Counts a line that is bad, or is left out for a bad image, and notes the
 * first PART_NOTES of them with their causes.
 */
static int note_bad(struct draft *draft, uint64_t line, bool dropped,
                    const struct dt_error *what, struct dt_error *err)
{
    char text[DT_ERROR_TEXT_BYTES + 32];
    draft->counts.bad += !dropped;
    draft->counts.dropped += dropped;
    if (draft->note_count == PART_NOTES)
        return 0;
    size_t n = (size_t)snprintf(text, sizeof(text), "%" PRIu64 ": %s", line,
                                what->text) +
               1;
    char *notes = realloc(draft->notes, draft->notes_bytes + n);
    if (!notes)
        return dt_error_set(err, EX_OSERR, "out of memory");
    memcpy(notes + draft->notes_bytes, text, n);
    draft->notes = notes;
    draft->notes_bytes += n;
    draft->note_count++;
    return 0;
}

/* The limit of ids in lines. */
static size_t id_limit(const struct dt_make *make)
{
    return make->options->vocab_size > 0
               ? make->options->vocab_size
               : dt_tokenizer_vocab_size(make->tokenizer);
}

/* Appends the tokens of a line; its record decides how to count them. */
static int add_record(struct draft *draft, const struct dt_make *make,
                      struct dt_masker *masker, const char *line, size_t length,
                      struct dt_error *err)
{
    struct dt_record record;
    bool seam = false;
    int rc = dt_jsonl_read(line, length, make->format, make->options,
                           id_limit(make), &record, err);
    if (rc == 0)
        rc = dt_masker_add(masker, &record, &draft->marked, &seam, err);
    if (rc == 0) {
        draft->counts.pairs += record.format == DT_FORMAT_PROMPT_COMPLETION;
        draft->counts.seams += seam;
        draft->counts.renamed += record.turns.renamed;
    }
    dt_record_fini(&record);
    return rc;
}

static int add_preference(struct draft *draft, const struct dt_make *make,
                          struct dt_masker *masker, const char *line,
                          size_t length, struct dt_error *err)
{
    struct dt_preference p;
    bool seam = false;
    int rc = dt_preference_read(line, length, make->options, id_limit(make), &p,
                                err);
    if (rc == 0)
        rc = dt_masker_add_preference(masker, &p, &draft->marked, &seam, err);
    if (rc == 0) {
        draft->counts.pairs++;
        draft->counts.seams += seam;
        for (int i = 0; i < DT_SIDES; i++)
            draft->counts.renamed += p.turns[i].renamed;
    }
    dt_preference_fini(&p);
    return rc;
}

/* The words of the example from `first` on that are not tokens. */
static size_t words_of(const struct dt_make *make, const struct draft *draft,
                       size_t first)
{
    const uint32_t *words = draft->marked.tokens + first;
    struct dt_example_parts parts = {.tokens = words};
    if (make->options->images)
        dt_example_find(words, draft->marked.count - first, &parts);
    return (size_t)(parts.tokens - words) +
           (make->format == DT_FORMAT_PREFERENCE ? DT_PAIR_WORDS : 0);
}

/* Counts words and targets of the example from `first` on. */
static void count_words(struct draft *draft, const struct dt_make *make,
                        size_t first)
{
    const size_t words = words_of(make, draft, first);
    draft->counts.words += words;
    for (size_t i = first + words; i < draft->marked.count; i++)
        draft->counts.targets += (draft->marked.tokens[i] & DT_TARGET_BIT) != 0;
}

/* Adds the example of line `number`. A bad line is counted, and noted if it is
 * one of the first, and returns 0. -1: any other failure, EX_OSERR, EX_CONFIG.
 */
static int draft_line(struct draft *draft, const struct dt_make *make,
                      struct dt_masker *masker, const char *line, size_t length,
                      uint64_t number, struct dt_error *err)
{
    const bool pairs = make->format == DT_FORMAT_PREFERENCE;
    const size_t before = draft->marked.count;
    struct dt_error what;
    int rc = (pairs ? add_preference : add_record)(draft, make, masker, line,
                                                   length, &what);
    draft->counts.lines++;
    if (rc == 0) {
        if (make->options->images)
            dt_example_set_line(draft->marked.tokens + before, number);
        count_words(draft, make, before);
        return end_example(draft, err);
    }
    draft->marked.count = before;
    /* EX_NOINPUT: an image is missing or bad */
    if (what.status == EX_DATAERR || what.status == EX_NOINPUT)
        return note_bad(draft, number,
                        what.status == EX_NOINPUT && make->options->images &&
                            make->options->images->drop,
                        &what, err);
    *err = what;
    return dt_error_prefix(err, "%s%s%" PRIu64, make->path,
                           dt_kind_mark(&make->found), number);
}

/* Adds a piece of a text, all of whose tokens are targets. -1: EX_OSERR. */
static int draft_text(struct draft *draft, const struct dt_make *make,
                      struct dt_masker *masker, const struct dt_part *part,
                      const char *text, struct dt_error *err)
{
    if (dt_masker_add_text(masker, text, part->end - part->begin,
                           part->begin == 0, part->end == make->lines.bytes,
                           &draft->marked, err) < 0)
        return dt_error_prefix(err, "%s", make->path);
    draft->counts.lines = 1;
    if (part->begin == 0 && make->options->images)
        draft->counts.words = dt_example_images_words(NULL, 0);
    draft->counts.targets = draft->marked.count - draft->counts.words;
    return end_example(draft, err);
}

/* --- the parts --- */

int dt_make_read(const struct dt_make *make, void (*read)(void *ctx), void *ctx,
                 struct dt_error *err)
{
    if (dt_guard_run(read, ctx) == 0)
        return 0;
    return dt_error_set(err, EX_IOERR,
                        "%s: cut short while it is read, or its disk fails",
                        make->path);
}

/* The parts of a file, which threads take one after another. */
struct work {
    const struct dt_make *make;
    const struct dt_part *parts;
    struct dt_cache *opened; /* the file of each part */
    size_t count;
    pthread_mutex_t lock; /* protects the fields below */
    size_t next;
    uint64_t done;      /* bytes of the file that are done */
    uint64_t bad;       /* lines, so far */
    atomic_bool failed; /* read without the lock, too */
    struct dt_error err;
};

/* --- one part --- */

struct copy {
    char *to;
    const char *from;
    size_t bytes;
};

static void copy_bytes(void *ctx)
{
    const struct copy *copy = ctx;
    memcpy(copy->to, copy->from, copy->bytes);
}

/* Counts bad lines of all parts. -1: EX_DATAERR with the first of these notes,
 * there are too many already.
 */
static int count_bad(struct work *work, uint64_t more, const char *notes,
                     size_t bytes, struct dt_error *err)
{
    if (more == 0)
        return 0;
    pthread_mutex_lock(&work->lock);
    const uint64_t bad = work->bad += more;
    pthread_mutex_unlock(&work->lock);
    return bad > work->make->bad_allowed
               ? refuse_bad(work->make, bad, notes, bytes, err)
               : 0;
}

static int draft_counted(struct work *work, struct dt_masker *masker,
                         struct draft *draft, const char *line, size_t length,
                         uint64_t number, struct dt_error *err)
{
    const uint64_t bad = draft->counts.bad;
    if (draft_line(draft, work->make, masker, line, length, number, err) < 0)
        return -1;
    return count_bad(work, draft->counts.bad - bad, draft->notes,
                     draft->notes_bytes, err);
}

static int make_draft(struct work *work, struct dt_masker *masker,
                      const struct dt_part *part, struct draft *draft,
                      struct dt_error *err)
{
    const struct dt_make *make = work->make;
    struct dt_stop stop = {.asked = make->options->stop};
    const char *line;
    /* Only at 0 does dt_jsonl_next skip a byte order mark. */
    size_t at = part->begin > 0;
    size_t end = at + (part->end - part->begin), length;
    uint64_t number = part->line - 1;
    draft->source = malloc(end);
    draft->offsets = calloc(1, sizeof(*draft->offsets));
    if (!draft->source || !draft->offsets)
        return dt_error_set(err, EX_OSERR, "out of memory");
    struct copy copy = {draft->source + at,
                        (const char *)make->lines.data + part->begin, end - at};
    if (dt_make_read(make, copy_bytes, &copy, err) < 0)
        return -1;
    if (make->is_text)
        return draft_text(draft, make, masker, part, copy.to, err);
    while ((line = dt_jsonl_next(draft->source, end, &at, &number, &length)) !=
           NULL)
        if (dt_stop_check(&stop, make->path, err) < 0 ||
            work->failed || /* nobody needs this part any longer */
            draft_counted(work, masker, draft, line, length, number, err) < 0)
            return -1;
    return 0;
}

static void part_path(const struct dt_make *make, size_t i, char *out,
                      size_t size)
{
    snprintf(out, size, "%s/%08zu", make->parts_dir, i);
}

/* A path that no other process writes to. */
static void temporary_path(const struct dt_make *make, size_t i, char *out,
                           size_t size)
{
    char host[64] = "";
    gethostname(host, sizeof(host) - 1);
    snprintf(out, size, "%s/%08zu-%s-%ld", make->parts_dir, i, host,
             (long)getpid());
}

static int make_part(struct work *work, struct dt_masker *masker, size_t i,
                     struct dt_error *err)
{
    const struct dt_make *make = work->make;
    char path[PATH_MAX + 64], temporary[PATH_MAX + 160];
    struct draft draft = {0};
    int rc = make_draft(work, masker, &work->parts[i], &draft, err);
    if (rc == 0) {
        struct dt_cache cache = {
            .counts = draft.counts,
            .count = draft.count,
            .token_count = draft.marked.count,
            .notes_bytes = draft.notes_bytes,
            .offsets = draft.offsets,
            .tokens = draft.marked.tokens,
            .notes = draft.notes ? draft.notes : "",
        };
        part_path(make, i, path, sizeof(path));
        temporary_path(make, i, temporary, sizeof(temporary));
        rc = dt_cache_write(path, temporary, make->key, 0, &cache, 1, false,
                            PART_NOTES, err);
    }
    draft_fini(&draft);
    if (rc == 0 && dt_fault("data.part"))
        rc = dt_error_set(err, EX_IOERR, "%s: an error as asked for", path);
    return rc;
}

/* --- all parts --- */

/* Takes the next part for a thread. False if there is none left or a part has
 * failed.
 */
static bool take_part(struct work *work, size_t *i)
{
    pthread_mutex_lock(&work->lock);
    bool more = !work->failed && work->next < work->count;
    *i = work->next;
    work->next += more;
    pthread_mutex_unlock(&work->lock);
    return more;
}

static void report_part(struct work *work, size_t i, int rc,
                        const struct dt_error *err)
{
    const struct dt_example_options *options = work->make->options;
    pthread_mutex_lock(&work->lock);
    if (rc < 0 && !work->failed)
        work->err = *err;
    if (rc < 0)
        work->failed = true;
    work->done += work->parts[i].end - work->parts[i].begin;
    if (options->progress && !work->failed)
        options->progress(options->ctx, work->done, work->make->lines.bytes);
    pthread_mutex_unlock(&work->lock);
}

/* Opens a part. Makes it first, unless a process that was killed has made it.
 */
static int open_part(struct work *work, struct dt_masker *masker, size_t i,
                     struct dt_error *err)
{
    const struct dt_make *make = work->make;
    struct dt_cache *opened = &work->opened[i];
    char path[PATH_MAX + 64];
    part_path(make, i, path, sizeof(path));
    if (dt_cache_open(opened, path, make->key, NULL) == 0)
        return count_bad(work, opened->counts.bad, opened->notes,
                         opened->notes_bytes, err);
    if (make_part(work, masker, i, err) < 0)
        return -1;
    return dt_cache_open(opened, path, make->key, err);
}

static void *work_thread(void *arg)
{
    struct work *work = arg;
    const struct dt_make *make = work->make;
    struct dt_error err;
    size_t i;
    struct dt_masker *masker =
        dt_masker_create(make->tokenizer, make->chat, &make->no_chat,
                         make->loss_on, make->options->parse_special, &err);
    if (masker && make->options->images &&
        dt_masker_use_images(masker, make->options->images, &err) < 0) {
        dt_masker_destroy(masker);
        masker = NULL;
    }
    if (masker && make->options->keep_marks)
        dt_masker_keep_marks(masker);
    while (take_part(work, &i)) {
        int rc = masker ? open_part(work, masker, i, &err) : -1;
        report_part(work, i, rc, &err);
    }
    dt_masker_destroy(masker);
    return NULL;
}

/* Makes all parts that do not exist yet, and opens all. The caller closes those
 * that are open, also after a failure.
 */
static int open_parts(const struct dt_make *make, const struct dt_part *parts,
                      struct dt_cache *opened, size_t count,
                      struct dt_error *err)
{
    struct work work = {
        .make = make, .parts = parts, .opened = opened, .count = count};
    size_t threads = make->options->threads > 1 ? make->options->threads : 1;
    size_t started = 0;
    threads = threads < count ? threads : count;
    pthread_t *ids = calloc(threads, sizeof(*ids));
    if (!ids)
        return dt_error_set(err, EX_OSERR, "out of memory");
    pthread_mutex_init(&work.lock, NULL);
    while (started + 1 < threads &&
           pthread_create(&ids[started], NULL, work_thread, &work) == 0)
        started++;
    work_thread(&work);
    for (size_t i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
    pthread_mutex_destroy(&work.lock);
    free(ids);
    if (work.failed && err)
        *err = work.err;
    return work.failed ? -1 : 0;
}

/* Makes the cache from its parts. */
static int join_parts(const struct dt_make *make, const struct dt_part *parts,
                      size_t count, struct dt_error *err)
{
    char temporary[PATH_MAX + 160];
    struct dt_cache *opened = calloc(count, sizeof(*opened));
    if (!opened)
        return dt_error_set(err, EX_OSERR, "out of memory");
    temporary_path(make, count, temporary, sizeof(temporary));
    int rc = open_parts(make, parts, opened, count, err);
    if (rc == 0)
        rc = dt_cache_write(make->cache, temporary, make->key, make->stamp,
                            opened, count, make->is_text, CACHE_NOTES, err);
    for (size_t i = 0; i < count; i++)
        dt_cache_close(&opened[i]);
    free(opened);
    return rc;
}

struct cutting {
    const struct dt_make *make;
    size_t part_bytes;
    struct dt_part *parts;
    size_t count;
    uint64_t lines; /* of a file that is no text, blank ones too */
};

/* Cuts the file into parts: JSONL between any two lines, text only where a cut
 * does not change the tokens.
 */
static void cut_parts(void *ctx)
{
    struct cutting *c = ctx;
    const struct dt_map *map = &c->make->lines;
    if (!c->make->is_text) {
        c->count =
            dt_jsonl_parts(map->data, map->bytes, c->part_bytes, c->parts);
        c->lines = dt_jsonl_count(map->data, map->bytes);
        return;
    }
    for (size_t begin = 0; begin < map->bytes; c->count++) {
        size_t end = dt_tokenizer_cut(c->make->tokenizer, map->data, map->bytes,
                                      begin + c->part_bytes);
        c->parts[c->count] = (struct dt_part){.begin = begin, .end = end};
        begin = end;
    }
}

/* Makes the cache from make->lines. */
static int make_cache(struct dt_make *make, struct dt_error *err)
{
    size_t bytes = make->lines.bytes;
    struct cutting c = {.make = make, .part_bytes = PART_BYTES};
    if (c.part_bytes < bytes / PARTS_MAX)
        c.part_bytes = bytes / PARTS_MAX;
    c.parts = calloc(bytes / c.part_bytes + 1, sizeof(*c.parts));
    if (!c.parts)
        return dt_error_set(err, EX_OSERR, "out of memory");
    int rc = dt_make_read(make, cut_parts, &c, err);
    make->bad_allowed = bad_allowed(make, c.lines);
    if (rc == 0)
        rc = join_parts(make, c.parts, c.count, err);
    if (rc == 0)
        rc = dt_file_sync_dir(make->dir, err);
    if (rc == 0)
        rc = dt_file_remove_tree(make->parts_dir, err);
    free(c.parts);
    return rc;
}

/* Makes the cache of a file of any form. */
static int make_of_rows(struct dt_make *make, struct dt_error *err)
{
    struct dt_stop stop = {.asked = make->options->stop};
    const struct dt_example_images *images = make->options->images;
    const struct dt_lines_keep keep = dt_row_images_keep(images);
    if (dt_make_is_plain(make))
        make->lines = make->map;
    else if (dt_lines_read(&make->lines, make->path, &make->found,
                           make->parts_dir, 0, images ? &keep : NULL, &stop,
                           err) < 0)
        return -1;
    int rc = make_cache(make, err);
    if (!dt_make_is_plain(make))
        dt_map_fini(&make->lines);
    return rc;
}

/* --- one maker at a time --- */

/* The time at which the other process last finished a part, by the file
 * system's clock.
 */
static struct timespec progress_of(const struct dt_make *make)
{
    struct stat st;
    return stat(make->parts_dir, &st) == 0 ? st.st_mtim : (struct timespec){0};
}

/* Waits until no other process holds the lock. If locks do not work here, or
 * the holder makes no progress, continues without the lock: it only saves work,
 * since two processes that write the same parts do not harm each other. Sets a
 * descriptor for the caller to close, or -1. -1: EX_TEMPFAIL.
 */
static int lock_parts(const struct dt_make *make, int *descriptor,
                      struct dt_error *err)
{
    struct dt_stop stop = {.asked = make->options->stop};
    char path[PATH_MAX + 64];
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct timespec last = progress_of(make);
    double since = dt_clock_now();
    snprintf(path, sizeof(path), "%s/lock", make->parts_dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    *descriptor = fd;
    while (fd >= 0 && fcntl(fd, F_OFD_SETLK, &lock) < 0 &&
           (errno == EAGAIN || errno == EACCES)) {
        struct timespec now = progress_of(make);
        if (now.tv_sec != last.tv_sec || now.tv_nsec != last.tv_nsec) {
            last = now;
            since = dt_clock_now();
        }
        if (dt_clock_now() - since > TIMEOUT_S || dt_fault("data.lock")) {
            dt_make_note(make,
                         "%s: the process that holds it has made no progress "
                         "for %d minutes; continuing without it",
                         path, TIMEOUT_S / 60);
            break;
        }
        if (dt_stop_check(&stop, make->path, err) < 0)
            return -1;
        dt_clock_sleep(LOOK_S);
    }
    return 0;
}

/* Opens the cache. With `tell`, notes why an existing file is not used. */
static int open_cache(const struct dt_make *make, struct dt_cache *cache,
                      bool tell, struct dt_error *err)
{
    int rc = dt_cache_open(cache, make->cache, make->key, err);
    if (rc < 0 && tell && err->status != EX_NOINPUT)
        dt_make_note(make, "%s; made again", err->text);
    return rc;
}

/* Opens the cache if another process has made it meanwhile, or makes it. */
static int open_or_make(struct dt_make *make, struct dt_cache *cache,
                        bool *made, struct dt_error *err)
{
    struct dt_error open_err;
    if (open_cache(make, cache, false, &open_err) == 0) {
        dt_file_remove_tree(make->parts_dir, NULL); /* nobody needs the parts */
        return 0;
    }
    if (make_of_rows(make, err) == 0) {
        *made = open_cache(make, cache, false, err) == 0;
        return *made ? 0 : -1;
    }
    /* another process may have made it and removed our parts */
    return err && err->status == EX_TEMPFAIL
               ? -1
               : open_cache(make, cache, false, &open_err);
}

/* Opens the cache if it is valid, else makes it. */
static int find_or_make(struct dt_make *make, struct dt_cache *cache,
                        bool *made, struct dt_error *err)
{
    struct dt_error open_err;
    int lock;
    *made = false;
    if (open_cache(make, cache, true, &open_err) == 0)
        return 0;
    if (make->options->cached)
        return dt_error_set(err, EX_NOINPUT, "%s: not prepared", make->path);
    if (dt_file_mkdirs(make->parts_dir, err) < 0)
        return dt_error_prefix(err,
                               "no place for the tokens of %s "
                               "(data.cache_dir names one)",
                               make->path);
    int rc = lock_parts(make, &lock, err);
    if (rc == 0)
        rc = open_or_make(make, cache, made, err);
    if (lock >= 0)
        close(lock);
    return rc;
}

int dt_make_run(struct dt_make *make, struct dt_cache *cache, bool *made,
                struct dt_error *err)
{
    if (find_or_make(make, cache, made, err) < 0 ||
        check_cache(make, cache, err) < 0)
        return -1;
    report_cache(make, cache);
    return 0;
}
