/* SPDX-License-Identifier: Apache-2.0 */
/* kind.c - known beginnings of files, and what follows from them */
#include "config.h"

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/kind.h"
#include "base/str.h"

enum {
    HEAD_BYTES = 4096,
    SURE_BYTES = 4,  /* of a signature: raw tokens do not begin so by chance */
    LLMC_YEAR = 2024 /* magic numbers of llm.c are dates, 20240520 */
};

#define PANDAS(reader)                                                         \
    "pandas." reader "(FILE).to_json(\"FILE.jsonl\", orient=\"records\", "     \
    "lines=True) makes lines of JSON of it"

/* What is not read here, and how it becomes what is. */
static const struct signature {
    const char *bytes;
    size_t count, offset;
    const char *what, *advice;
} signatures[] = {
#define AT(offset, bytes) bytes, sizeof(bytes) - 1, offset
    {AT(0, "version https://git-lfs"), "a Git LFS pointer instead of the file",
     "fetch it with `git lfs pull`"},
    {AT(0, "\x1f\x8b\x08"), "compressed with gzip", "unpack it with `gzip -d`"},
    {AT(4, "1AY&SY"), "compressed with bzip2", "unpack it with `bzip2 -d`"},
    {AT(0, "\xfd"
           "7zXZ\0"),
     "compressed with xz", "unpack it with `xz -d`"},
    {AT(0, "\x28\xb5\x2f\xfd"), "compressed with zstd",
     "unpack it with `zstd -d`"},
    {AT(0, "\x04\x22\x4d\x18"), "compressed with lz4",
     "unpack it with `lz4 -d`"},
    {AT(0, "PK\x03\x04"), "a zip archive", "unpack it with `unzip`"},
    {AT(257, "ustar"), "a tar archive", "unpack it with `tar -xf`"},
    {AT(0, "PAR1"), "Parquet", PANDAS("read_parquet")},
    {AT(0, "ARROW1\0\0"), "Arrow", PANDAS("read_feather")},
    {AT(0, "FEA1"), "Feather", PANDAS("read_feather")},
    /* as Dataset.save_to_disk of datasets writes it */
    {AT(0, "\xff\xff\xff\xff"), "an Arrow stream",
     "datasets.Dataset.from_file(FILE).to_json(\"FILE.jsonl\") makes lines of "
     "JSON of it"},
    {AT(0, "\x89HDF\r\n\x1a\n"), "HDF5",
     "write its texts as lines of JSON, {\"text\": ...}"},
    {AT(0, "\x93NUMPY"), "a NumPy array",
     "numpy.load(FILE).astype(\"<u2\").tofile(\"FILE.bin\") makes a token file "
     "of ids"},
    {AT(0, "%PDF-"), "PDF", "`pdftotext` makes text of it"},
    {AT(0, "\xff\xfe\0\0"), "UTF-32",
     "`iconv -f UTF-32 -t UTF-8` makes UTF-8 of it"},
    {AT(0, "\0\0\xfe\xff"), "UTF-32",
     "`iconv -f UTF-32 -t UTF-8` makes UTF-8 of it"},
    {AT(0, "\xff\xfe"), "UTF-16",
     "`iconv -f UTF-16 -t UTF-8` makes UTF-8 of it"},
    {AT(0, "\xfe\xff"), "UTF-16",
     "`iconv -f UTF-16 -t UTF-8` makes UTF-8 of it"},
#undef AT
};

struct head {
    const char *path;
    unsigned char bytes[HEAD_BYTES + 1]; /* and a NUL */
    size_t count;
};

static int refuse(const struct head *head, const char *what, const char *advice,
                  struct dt_error *err)
{
    return dt_error_set(err, EX_DATAERR, "%s: this is %s: %s", head->path, what,
                        advice);
}

/* `raw`: the file is to be token ids, which may begin with any two or three. */
static const struct signature *find_signature(const struct head *head, bool raw)
{
    for (size_t i = 0; i < sizeof(signatures) / sizeof(signatures[0]); i++) {
        const struct signature *s = &signatures[i];
        if (head->count >= s->offset + s->count &&
            memcmp(head->bytes + s->offset, s->bytes, s->count) == 0 &&
            (!raw || s->count >= SURE_BYTES))
            return s;
    }
    return NULL;
}

static bool is_llmc(const struct head *head)
{
    uint32_t magic;
    memcpy(&magic, head->bytes, sizeof(magic));
    return head->count >= sizeof(magic) && le32toh(magic) / 10000 == LLMC_YEAR;
}

/* Text has no NUL; UTF-16 and UTF-32 of mostly ASCII have one in two bytes or
 * three in four.
 */
static int check_nul(const struct head *head, struct dt_error *err)
{
    size_t zeros = 0;
    for (size_t i = 0; i < head->count; i++)
        zeros += head->bytes[i] == '\0';
    if (zeros * 8 > head->count * 5)
        return refuse(head, "UTF-32 or binary",
                      "`iconv -f UTF-32LE -t UTF-8` makes UTF-8 of UTF-32",
                      err);
    if (zeros * 4 > head->count)
        return refuse(head, "UTF-16 or binary",
                      "`iconv -f UTF-16LE -t UTF-8` makes UTF-8 of UTF-16",
                      err);
    if (zeros > 0)
        return dt_error_set(err, EX_DATAERR,
                            "%s: byte %zu is NUL: this is binary, not text; "
                            "raw token ids need a name that ends in .bin, or "
                            "format tokens_bin",
                            head->path, strlen((const char *)head->bytes));
    return 0;
}

/* Text with commas is text, but a table that calls itself one is not. */
static int check_table(const struct head *head, enum dt_kind_asked asked,
                       struct dt_error *err)
{
    static const char *const tables[][3] = {
        {".csv", "comma", PANDAS("read_csv")},
        {".tsv", "tab",
         "pandas.read_csv(FILE, sep=\"\\t\").to_json(\"FILE.jsonl\", "
         "orient=\"records\", lines=True) makes lines of JSON of it"},
    };
    const char *end = strrchr(head->path, '.');
    for (size_t i = 0; i < 2; i++)
        if (end && strcasecmp(end, tables[i][0]) == 0)
            return dt_error_set(
                err, EX_DATAERR,
                "%s: this is a table of %s-separated values: %s%s", head->path,
                tables[i][1], tables[i][2],
                asked == DT_ASKED_AUTO
                    ? ", and format text reads it as running text"
                    : "");
    return 0;
}

/* The first byte that is neither white space nor a byte order mark. */
static const char *first_byte(const struct head *head)
{
    const char *text = (const char *)head->bytes;
    text += strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    return text + strspn(text, " \t\r\n");
}

/* Text or lines of JSON? */
static int find_textual(const struct head *head, enum dt_kind_asked asked,
                        enum dt_kind *kind, struct dt_error *err)
{
    const char *first = first_byte(head);
    const char *second = first + (*first != '\0');
    second += strspn(second, " \t\r\n");
    bool named = dt_str_ends_with(head->path, ".jsonl") ||
                 dt_str_ends_with(head->path, ".json");
    bool lines = asked == DT_ASKED_LINES || named;
    if (*first == '[' && (lines || *second == '{'))
        return dt_error_set(err, EX_DATAERR,
                            "%s: a JSON array; expected JSONL, an object on "
                            "each line: `jq -c '.[]'` makes it so",
                            head->path);
    bool table = asked == DT_ASKED_AUTO
                     ? !lines
                     : asked == DT_ASKED_LINES && *first != '{';
    if (table && check_table(head, asked, err) < 0)
        return -1;
    lines |= *first == '{' && *second && strchr("\"'}", *second);
    *kind = lines ? DT_KIND_LINES : DT_KIND_TEXT;
    return 0;
}

enum dt_kind_asked dt_kind_asked_by(enum dt_format format)
{
    switch (format) {
    case DT_FORMAT_AUTO:
        return DT_ASKED_AUTO;
    case DT_FORMAT_TEXT:
        return DT_ASKED_TEXT;
    case DT_FORMAT_TOKENS_BIN:
        return DT_ASKED_TOKENS;
    case DT_FORMAT_PROMPT_COMPLETION:
    case DT_FORMAT_MESSAGES:
    case DT_FORMAT_TOKENIZED:
    case DT_FORMAT_PREFERENCE:
    case DT_FORMAT_PROMPT:
        break;
    }
    return DT_ASKED_LINES;
}

int dt_kind_find(const char *path, enum dt_kind_asked asked, enum dt_kind *kind,
                 struct dt_error *err)
{
    struct head head = {.path = path};
    bool raw = asked == DT_ASKED_TOKENS ||
               (asked == DT_ASKED_AUTO && dt_str_ends_with(path, ".bin"));
    if (dt_file_peek(path, head.bytes, HEAD_BYTES, &head.count, err) < 0)
        return -1;
    if (head.count == 0)
        return dt_error_set(err, EX_DATAERR, "%s: empty", path);
    const struct signature *found = find_signature(&head, raw);
    if (found)
        return refuse(&head, found->what, found->advice, err);
    *kind = DT_KIND_TOKENS;
    if (raw || (asked == DT_ASKED_AUTO && is_llmc(&head)))
        return 0;
    if (check_nul(&head, err) < 0)
        return -1;
    return find_textual(&head, asked, kind, err);
}

const char *dt_kind_name(enum dt_kind kind)
{
    static const char *const names[] = {"text", "lines of JSON", "tokens"};
    return names[kind];
}
