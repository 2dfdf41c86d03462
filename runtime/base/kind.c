/* SPDX-License-Identifier: Apache-2.0 */
/* kind.c - tells the kind of a file by its beginning */
#include "config.h"

#include <ctype.h>
#include <endian.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/kind.h"
#include "base/str.h"

enum {
    HEAD_BYTES = 4096,
    SURE_BYTES = 4,  /* of a signature: raw tokens do not begin so by chance */
    GZIP_BYTES = 18, /* the least that a file of gzip has */
    TEXT_BYTES = 64, /* of ASCII are no ids, */
    JSON_BYTES = 8,  /* and of JSON, so many */
    LLMC_YEAR = 2024 /* magic numbers of llm.c are dates, 20240520 */
};

#define PANDAS(reader)                                                         \
    "pandas." reader "(FILE).to_json(\"FILE.jsonl\", orient=\"records\", "     \
    "lines=True) makes lines of JSON of it"

/* Compressed files: how they begin, and the ends of their names. */
static const struct {
    const char *bytes;
    size_t count;
    enum dt_codec codec;
    const char *suffix;
} codecs[] = {
    {"\x1f\x8b\x08", 3, DT_CODEC_GZIP, ".gz"},
    {"\x28\xb5\x2f\xfd", 4, DT_CODEC_ZSTD, ".zst"},
};

/* Columns, from which rows are assembled. */
static const struct {
    const char *bytes;
    size_t count;
    enum dt_form form;
} columns[] = {
    {"PAR1", 4, DT_FORM_PARQUET},
    {"ARROW1\0\0", 8, DT_FORM_ARROW},
    {"\xff\xff\xff\xff", 4, DT_FORM_ARROW}, /* a stream, as datasets has it */
};

/* Formats that are not read, and how to convert them. */
static const struct signature {
    const char *bytes;
    size_t count, offset;
    const char *what, *advice;
} signatures[] = {
#define AT(offset, bytes) bytes, sizeof(bytes) - 1, offset
    {AT(0, "version https://git-lfs"), "a Git LFS pointer instead of the file",
     "fetch it with `git lfs pull`"},
    {AT(4, "1AY&SY"), "compressed with bzip2", "unpack it with `bzip2 -d`"},
    {AT(0, "\xfd"
           "7zXZ\0"),
     "compressed with xz", "unpack it with `xz -d`"},
    {AT(0, "\x04\x22\x4d\x18"), "compressed with lz4",
     "unpack it with `lz4 -d`"},
    {AT(0, "PK\x03\x04"), "a zip archive", "unpack it with `unzip`"},
    {AT(257, "ustar"), "a tar archive", "unpack it with `tar -xf`"},
    {AT(0, "FEA1"), "Feather", PANDAS("read_feather")},
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
    char name[NAME_MAX + 1];             /* without folders, .gz and .zst */
    enum dt_codec codec;                 /* the bytes are unpacked */
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

/* The form of a table that calls itself one; PLAIN: its name does not. */
static enum dt_form find_table(const struct head *head)
{
    const char *end = strrchr(head->name, '.');
    if (end && strcasecmp(end, ".csv") == 0)
        return DT_FORM_CSV;
    return end && (strcasecmp(end, ".tsv") == 0 || strcasecmp(end, ".tab") == 0)
               ? DT_FORM_TSV
               : DT_FORM_PLAIN;
}

/* The first byte that is neither white space nor a byte order mark. */
static const char *first_byte(const struct head *head)
{
    const char *text = (const char *)head->bytes;
    text += strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    return text + strspn(text, " \t\r\n");
}

/* Whether a line is the names of columns with this separator, and one of them
 * is one that is read.
 */
static bool is_header(const char *line, size_t n, char separator)
{
    static const char *const known[] = {
        "text",   "prompt",   "completion",  "messages",  "conversations",
        "chosen", "rejected", "instruction", "output",    "response",
        "label",  "answer",   "question",    "input_ids", "content"};
    size_t fields = 0, found = 0;
    for (size_t at = 0, m; at <= n; at += m + 1, fields++) {
        const char *name = line + at;
        const char *end = memchr(name, separator, n - at);
        m = end ? (size_t)(end - name) : n - at;
        const bool quoted = m > 2 && name[0] == '"' && name[m - 1] == '"';
        for (size_t i = quoted; i < m - quoted; i++)
            if (!isalnum((unsigned char)name[i]) && !strchr("_-.", name[i]))
                return false;
        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
            found += strlen(known[i]) == m - 2 * quoted &&
                     strncasecmp(name + quoted, known[i], m - 2 * quoted) == 0;
    }
    return fields > 1 && found > 0;
}

/* Refuses text whose first line is that of a table: its rows would be trained
 * on with their separators.
 */
static int check_header(const struct head *head, struct dt_error *err)
{
    static const struct {
        char separator;
        const char *what, *advice;
    } tables[] = {
        {',', "a table separated by commas", "let its name end in .csv"},
        {'\t', "a table separated by tabs", "let its name end in .tsv"},
        {';', "a table separated by semicolons",
         "write it with commas, and let its name end in .csv"},
    };
    const char *line = first_byte(head);
    const size_t n = strcspn(line, "\r\n");
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        if (line[n] && is_header(line, n, tables[i].separator))
            return dt_error_set(err, EX_DATAERR,
                                "%s: its first line is that of %s: %s, or, if "
                                "it is a text, say so: data.format: text",
                                head->path, tables[i].what, tables[i].advice);
    return 0;
}

/* Whether it is text or rows, and the form of rows. Text with commas is text,
 * unless it calls itself a table.
 */
static void find_textual(const struct head *head, enum dt_kind_asked asked,
                         struct dt_found *found)
{
    const char *first = first_byte(head);
    const char *second = first + (*first != '\0');
    second += strspn(second, " \t\r\n");
    const enum dt_form table = find_table(head);
    const bool object = *first == '{' && *second && strchr("\"'}", *second);
    const bool array = *first == '[' && *second == '{';
    const bool named = dt_str_ends_with(head->name, ".jsonl") ||
                       dt_str_ends_with(head->name, ".json");
    const bool lines = asked == DT_ASKED_LINES || named || object || array;
    found->form = DT_FORM_PLAIN;
    if (array || (*first == '[' && lines && !table))
        found->form = DT_FORM_ARRAY;
    else if (table && !object)
        found->form = table;
    found->kind = lines || found->form ? DT_KIND_LINES : DT_KIND_TEXT;
}

enum dt_kind_asked dt_kind_asked_by(enum dt_format format)
{
    return format == DT_FORMAT_AUTO         ? DT_ASKED_AUTO
           : format == DT_FORMAT_TEXT       ? DT_ASKED_TEXT
           : format == DT_FORMAT_TOKENS_BIN ? DT_ASKED_TOKENS
                                            : DT_ASKED_LINES;
}

/* --- compressed files --- */

/* Which codec the bytes are of; NONE: none. `raw` as in find_signature. */
static enum dt_codec find_codec(const struct head *head, bool raw)
{
    for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++)
        if (head->count >= codecs[i].count &&
            memcmp(head->bytes, codecs[i].bytes, codecs[i].count) == 0 &&
            (!raw || codecs[i].count >= SURE_BYTES))
            return codecs[i].codec;
    return DT_CODEC_NONE;
}

/* Whether a file is of columns; then fills `found`. */
static bool find_columns(const struct head *head, struct dt_found *found)
{
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
        if (head->count >= columns[i].count &&
            memcmp(head->bytes, columns[i].bytes, columns[i].count) == 0) {
            found->kind = DT_KIND_LINES;
            found->form = columns[i].form;
            return true;
        }
    return false;
}

/* Sets head->name, without the suffix of a compressed file. */
static void set_name(struct head *head)
{
    const char *slash = strrchr(head->path, '/');
    snprintf(head->name, sizeof(head->name), "%s",
             slash ? slash + 1 : head->path);
    for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++)
        if (head->codec == codecs[i].codec &&
            dt_str_ends_with(head->name, codecs[i].suffix))
            head->name[strlen(head->name) - strlen(codecs[i].suffix)] = '\0';
}

/* Replaces the first bytes of a compressed file by the unpacked ones. */
static int unpack_head(struct head *head, struct dt_error *err)
{
    struct dt_input *input = dt_input_open(head->path, head->codec, err);
    if (!input)
        return -1;
    memset(head->bytes, 0, sizeof(head->bytes));
    int rc = dt_input_read(input, head->bytes, HEAD_BYTES, &head->count, err);
    dt_input_close(input);
    if (rc == 0 && head->count == 0)
        rc = dt_error_set(err, EX_DATAERR, "%s: empty", head->path);
    return rc;
}

/* Only rows are read from compressed files. */
static int refuse_packed(const struct head *head, struct dt_error *err)
{
    const char *name = dt_codec_name(head->codec);
    return dt_error_set(err, EX_DATAERR,
                        "%s: compressed with %s; only lines of JSON, JSON "
                        "arrays, CSV and TSV are read so: unpack it with "
                        "`%s -d`",
                        head->path, name, name);
}

/* Whether the beginning is that of gzip as programs write it: known flags, a
 * level and an operating system.
 */
static bool is_gzip(const struct head *head)
{
    const unsigned char *b = head->bytes;
    return head->count >= GZIP_BYTES && memcmp(b, "\x1f\x8b\x08", 3) == 0 &&
           b[3] < 0x20 && (b[8] == 0 || b[8] == 2 || b[8] == 4) &&
           (b[9] < 14 || b[9] == 0xff);
}

/* Refuses to take text or a compressed file for ids, which have bytes of any
 * value.
 */
static int check_ids(const struct head *head, struct dt_error *err)
{
    const char *first = first_byte(head);
    const bool json = !strncmp(first, "{\"", 2) || !strncmp(first, "[{", 2);
    size_t ascii = 0;
    while (ascii < head->count &&
           (isprint(head->bytes[ascii]) ||
            memchr("\t\r\n\xef\xbb\xbf", head->bytes[ascii], 6)))
        ascii++;
    if (is_gzip(head))
        return refuse(head, "compressed with gzip, and no token ids",
                      "unpack it with `gzip -d`", err);
    if (json && ascii >= JSON_BYTES)
        return refuse(head, "JSON, and no token ids",
                      "let its name end in .jsonl", err);
    if (ascii >= TEXT_BYTES)
        return refuse(head, "text, and no token ids",
                      "let its name end in .txt", err);
    return 0;
}

int dt_kind_find(const char *path, enum dt_kind_asked asked,
                 struct dt_found *found, struct dt_error *err)
{
    struct head head = {.path = path};
    bool raw = asked == DT_ASKED_TOKENS ||
               (asked == DT_ASKED_AUTO && dt_str_ends_with(path, ".bin"));
    *found = (struct dt_found){0};
    if (dt_file_peek(path, head.bytes, HEAD_BYTES, &head.count, err) < 0)
        return -1;
    if (head.count == 0)
        return dt_error_set(err, EX_DATAERR, "%s: empty", path);
    found->codec = head.codec = find_codec(&head, raw);
    set_name(&head);
    if (head.codec && raw)
        return refuse_packed(&head, err);
    if (head.codec && unpack_head(&head, err) < 0)
        return -1;
    if (find_columns(&head, found))
        return head.codec ? refuse_packed(&head, err) : 0;
    const struct signature *known = find_signature(&head, raw);
    if (known)
        return refuse(&head, known->what, known->advice, err);
    if (raw && check_ids(&head, err) < 0)
        return -1;
    found->kind = DT_KIND_TOKENS;
    if (raw || (asked == DT_ASKED_AUTO && is_llmc(&head)))
        return head.codec ? refuse_packed(&head, err) : 0;
    if (check_nul(&head, err) < 0)
        return -1;
    find_textual(&head, asked, found);
    if (found->kind == DT_KIND_TEXT && asked == DT_ASKED_AUTO &&
        check_header(&head, err) < 0)
        return -1;
    if (head.codec && found->kind != DT_KIND_LINES)
        return refuse_packed(&head, err);
    return 0;
}

const char *dt_kind_mark(const struct dt_found *found)
{
    const bool lines = found->form == DT_FORM_PLAIN ||
                       found->form == DT_FORM_CSV || found->form == DT_FORM_TSV;
    return lines ? ":" : ": row ";
}

const char *dt_kind_name(const struct dt_found *found)
{
    static const char *const forms[] = {
        [DT_FORM_PLAIN] = "lines of JSON", [DT_FORM_ARRAY] = "a JSON array",
        [DT_FORM_CSV] = "a table",         [DT_FORM_TSV] = "a table",
        [DT_FORM_PARQUET] = "Parquet",     [DT_FORM_ARROW] = "Arrow"};
    return found->kind == DT_KIND_LINES  ? forms[found->form]
           : found->kind == DT_KIND_TEXT ? "text"
                                         : "tokens";
}
