/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch_zip.c - finds the members of a zip archive, with 64-bit sizes
 *
 * Facts are from APPNOTE.TXT of PKWARE, 6.3.10: sections 4.3.7 (local header),
 * 4.3.12 (central directory), 4.3.14 to 4.3.16 (its end), 4.5.3 (64 bits).
 */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/torch_zip.h"

enum {
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    HEADER_BYTES = 46, /* of a member in the central directory */
    LOCAL_BYTES = 30,
    TAIL_BYTES = END_BYTES + LOCATOR_BYTES, /* torch writes no comment */
    DIRECTORY_BYTES = 64 << 20,
    MEMBERS_MAX = 1 << 20,
};

#define END_MAGIC 0x06054b50
#define END64_MAGIC 0x06064b50
#define LOCATOR_MAGIC 0x07064b50
#define HEADER_MAGIC 0x02014b50
#define LOCAL_MAGIC 0x04034b50
#define UNKNOWN32 UINT32_MAX

static uint64_t number(const char *from, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes; i-- > 0;)
        value = value << 8 | (unsigned char)from[i];
    return value;
}

static int damaged(const struct st_part *part, const char *what,
                   struct dt_error *err)
{
    return dt_safetensors_bad(part->path, err,
                              "not a whole archive of torch.save: %s", what);
}

/* Where the central directory is. */
struct place {
    uint64_t begin, bytes, count;
};

/* Reads the end with 64 bits, which the locator before the end points to. */
static int read_end64(const struct st_part *part, const char *locator,
                      struct place *place, struct dt_error *err)
{
    char end[END64_BYTES];
    uint64_t at = number(locator + 8, 8);
    if (part->bytes < END64_BYTES || at > part->bytes - END64_BYTES)
        return damaged(part, "its end points outside of it", err);
    if (dt_safetensors_copy(part, at, end, sizeof(end), err) < 0)
        return -1;
    if (number(end, 4) != END64_MAGIC)
        return damaged(part, "no end where it should be", err);
    *place = (struct place){number(end + 48, 8), number(end + 40, 8),
                            number(end + 32, 8)};
    return 0;
}

static int read_end(const struct st_part *part, struct place *place,
                    struct dt_error *err)
{
    char tail[TAIL_BYTES] = {0};
    const char *end = tail + LOCATOR_BYTES;
    size_t bytes = part->bytes < TAIL_BYTES ? part->bytes : TAIL_BYTES;
    if (bytes < END_BYTES ||
        dt_safetensors_copy(part, part->bytes - bytes,
                            tail + TAIL_BYTES - bytes, bytes, err) < 0)
        return damaged(part, "too short", err);
    if (number(end, 4) != END_MAGIC)
        return damaged(part, "cut short, or something follows it", err);
    *place = (struct place){number(end + 16, 4), number(end + 12, 4),
                            number(end + 10, 2)};
    if (number(tail, 4) == LOCATOR_MAGIC &&
        read_end64(part, tail, place, err) < 0)
        return -1;
    if (place->begin > part->bytes || place->bytes > part->bytes - place->begin)
        return damaged(part, "its directory is outside of it", err);
    if (place->bytes > DIRECTORY_BYTES || place->count > MEMBERS_MAX ||
        place->count > place->bytes / HEADER_BYTES)
        return damaged(part, "its directory is too large", err);
    return 0;
}

/* --- members --- */

/* A member as the directory describes it. */
struct header {
    uint64_t packed, bytes, local;
    size_t name_bytes, extra_bytes, all;
};

/* Takes sizes that do not fit 32 bits from the extra field. */
static int read_extra(struct header *h, const char *extra)
{
    uint64_t *const wide[] = {&h->bytes, &h->packed, &h->local};
    for (size_t at = 0; at + 4 <= h->extra_bytes;) {
        size_t id = number(extra + at, 2), bytes = number(extra + at + 2, 2);
        if (bytes > h->extra_bytes - at - 4)
            return -1;
        const char *from = extra + at + 4, *end = from + bytes;
        for (int i = 0; id == 1 && i < 3; i++) {
            if (*wide[i] != UNKNOWN32)
                continue;
            if (end - from < 8)
                return -1;
            *wide[i] = number(from, 8);
            from += 8;
        }
        at += 4 + bytes;
    }
    return 0;
}

/* Reads the header at `from`, of which there are `left` bytes. */
static int read_header(const struct st_part *part, const char *from,
                       size_t left, struct header *h, struct dt_error *err)
{
    if (left < HEADER_BYTES || number(from, 4) != HEADER_MAGIC)
        return damaged(part, "its directory is damaged", err);
    *h = (struct header){number(from + 20, 4), number(from + 24, 4),
                         number(from + 42, 4), number(from + 28, 2),
                         number(from + 30, 2), 0};
    h->all =
        HEADER_BYTES + h->name_bytes + h->extra_bytes + number(from + 32, 2);
    if (h->all > left || h->name_bytes == 0 ||
        read_extra(h, from + HEADER_BYTES + h->name_bytes) < 0)
        return damaged(part, "its directory is damaged", err);
    if (number(from + 10, 2) != 0 || h->packed != h->bytes ||
        (number(from + 8, 2) & 1))
        return dt_safetensors_bad(
            part->path, err,
            "%.*s is compressed or encrypted: torch.save does neither",
            (int)(h->name_bytes < 80 ? h->name_bytes : 80),
            from + HEADER_BYTES);
    return 0;
}

/* Sets where the bytes of a member are. */
static int find_bytes(const struct st_part *part, const struct header *h,
                      struct zip_member *member, struct dt_error *err)
{
    char local[LOCAL_BYTES];
    if (part->bytes < LOCAL_BYTES || h->local > part->bytes - LOCAL_BYTES)
        return damaged(part, "a member is outside of it", err);
    if (dt_safetensors_copy(part, h->local, local, sizeof(local), err) < 0)
        return -1;
    if (number(local, 4) != LOCAL_MAGIC)
        return damaged(part, "a member has no header", err);
    member->begin =
        h->local + LOCAL_BYTES + number(local + 26, 2) + number(local + 28, 2);
    if (member->begin > part->bytes || h->bytes > part->bytes - member->begin)
        return damaged(part, "a member is outside of it", err);
    member->end = member->begin + h->bytes;
    return 0;
}

static int by_name(const void *pa, const void *pb)
{
    const struct zip_member *a = pa, *b = pb;
    return strcmp(a->name, b->name);
}

/* Names begin with a folder, which is the same for all. */
static int strip_folder(struct zip *zip, const struct st_part *part,
                        struct dt_error *err)
{
    const char *first = zip->count > 0 ? zip->members[0].name : "";
    const size_t n = strcspn(first, "/") + 1;
    for (size_t i = 0; i < zip->count; i++) {
        const char *name = zip->members[i].name;
        if (strlen(name) <= n || strncmp(name, first, n) != 0)
            return damaged(part, "its members are in several folders", err);
        zip->members[i].name = name + n;
    }
    qsort(zip->members, zip->count, sizeof(*zip->members), by_name);
    for (size_t i = 1; i < zip->count; i++)
        if (by_name(&zip->members[i - 1], &zip->members[i]) == 0)
            return damaged(part, "two members have one name", err);
    return 0;
}

static int read_members(struct zip *zip, const struct st_part *part,
                        const struct place *place, struct dt_error *err)
{
    size_t at = 0;
    for (; zip->count < place->count; zip->count++) {
        struct header h;
        struct zip_member *member = &zip->members[zip->count];
        char *from = zip->directory + at;
        if (read_header(part, from, place->bytes - at, &h, err) < 0 ||
            find_bytes(part, &h, member, err) < 0)
            return -1;
        /* the name moves over the end of its header, to make room for a NUL */
        char *name = memmove(from, from + HEADER_BYTES, h.name_bytes);
        name[h.name_bytes] = '\0';
        member->name = name;
        at += h.all;
    }
    return strip_folder(zip, part, err);
}

int zip_init(struct zip *zip, const struct st_part *part, struct dt_error *err)
{
    struct place place = {0};
    *zip = (struct zip){0};
    if (read_end(part, &place, err) < 0)
        return -1;
    zip->directory = malloc(place.bytes + 1);
    zip->members = calloc(place.count + 1, sizeof(*zip->members));
    if (!zip->directory || !zip->members)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", part->path);
    if (dt_safetensors_copy(part, place.begin, zip->directory, place.bytes,
                            err) < 0)
        return -1;
    return read_members(zip, part, &place, err);
}

void zip_fini(struct zip *zip)
{
    free(zip->directory);
    free(zip->members);
    *zip = (struct zip){0};
}

const struct zip_member *zip_find(const struct zip *zip, const char *name)
{
    const struct zip_member key = {.name = name};
    return bsearch(&key, zip->members, zip->count, sizeof(key), by_name);
}
