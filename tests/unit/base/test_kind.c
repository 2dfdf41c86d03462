/* SPDX-License-Identifier: Apache-2.0 */
/* test_kind.c - text, lines of JSON, tokens, and what is none of them */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/kind.h"
#include "tests/unit/scratch.h"

#define BYTES(text) text, sizeof(text) - 1
#define LLMC "\x88\xd8\x34\x01\x01\0\0\0"
#define GZIP_OBJECT                                                            \
    "\x1f\x8b\x08\0\0\0\0\0\0\xff\x01\x02\0\xfd\xff{}"                         \
    "\x43\xbf\xa6\xa3\x02\0\0\0"
#define GZIP_TABLE                                                             \
    "\x1f\x8b\x08\0\0\0\0\0\0\xff\x01\x04\0\xfb\xff"                           \
    "a,b\n"                                                                    \
    "\xc5\x10\x97\x24\x04\0\0\0"
#define ZSTD_OBJECT "\x28\xb5\x2f\xfd\x20\x02\x11\0\0{}"
#define PANDAS_JSON "to_json(\"FILE.jsonl\", orient=\"records\", lines=True)"

static const struct {
    const char *name, *bytes;
    size_t count;
    enum dt_kind_asked asked;
    enum dt_kind kind;
} good[] = {
    {"a.txt", BYTES("Once upon"), DT_ASKED_AUTO, DT_KIND_TEXT},
    {"GPL-3", BYTES("Once upon"), DT_ASKED_AUTO, DT_KIND_TEXT},
    {"a.txt", BYTES("a,b\n1,2\n"), DT_ASKED_AUTO, DT_KIND_TEXT},
    {"a.txt", BYTES("{\\bf TeX}"), DT_ASKED_AUTO, DT_KIND_TEXT},
    {"a.txt", BYTES("[Verse 1]\n"), DT_ASKED_AUTO, DT_KIND_TEXT},
    {"a.txt", BYTES("{"), DT_ASKED_AUTO, DT_KIND_TEXT},
    {"a.bin", BYTES("ab"), DT_ASKED_TEXT, DT_KIND_TEXT},
    {"a.txt", BYTES("prompt,completion\na,b\n"), DT_ASKED_TEXT, DT_KIND_TEXT},
    {"a.txt", BYTES("Question, answer\n"), DT_ASKED_AUTO, DT_KIND_TEXT},
    {"a.txt", BYTES("text\nand more\n"), DT_ASKED_AUTO, DT_KIND_TEXT},
    {"a.txt", BYTES("text,output"), DT_ASKED_AUTO, DT_KIND_TEXT},
    /* lines of JSON by what they are, under any name */
    {"a.txt", BYTES("{\"text\": \"a\"}\n"), DT_ASKED_AUTO, DT_KIND_LINES},
    {"a.ndjson", BYTES("{\"text\": \"a\"}\n"), DT_ASKED_AUTO, DT_KIND_LINES},
    {"lines", BYTES("\xef\xbb\xbf\r\n {\n\"a\""), DT_ASKED_TEXT, DT_KIND_LINES},
    {"a.txt", BYTES("{}\n"), DT_ASKED_AUTO, DT_KIND_LINES},
    {"a.txt", BYTES("{'text': 1}"), DT_ASKED_AUTO, DT_KIND_LINES},
    {"a.csv", BYTES("{\"text\": 1}"), DT_ASKED_LINES, DT_KIND_LINES},
    /* and by name, or because the user says so */
    {"a.jsonl", BYTES("text"), DT_ASKED_AUTO, DT_KIND_LINES},
    {"a.json", BYTES("text"), DT_ASKED_AUTO, DT_KIND_LINES},
    {"a.txt", BYTES("text"), DT_ASKED_LINES, DT_KIND_LINES},
    {"a.bin", BYTES("ab"), DT_ASKED_AUTO, DT_KIND_TOKENS},
    {"a.txt", BYTES("ab"), DT_ASKED_TOKENS, DT_KIND_TOKENS},
    {"a.txt", BYTES(LLMC), DT_ASKED_AUTO, DT_KIND_TOKENS},
    /* tokens that look like two bytes of something */
    {"a.bin", BYTES("\x1f\x8b\x08\0"), DT_ASKED_AUTO, DT_KIND_TOKENS},
    {"a.bin", BYTES("\xff\xfe\x41\0"), DT_ASKED_AUTO, DT_KIND_TOKENS},
    {"a.bin", BYTES("{\"\x01\0\x02\0\x03\0\x04\0\x05\0\x06\0\x07\0"),
     DT_ASKED_AUTO, DT_KIND_TOKENS},
    {"a.bin", BYTES("\x1f\x8b\x08\xe0\0\0\0\0\0\xff\x01\x02\0\xfd\xff\0\0\0"),
     DT_ASKED_AUTO, DT_KIND_TOKENS},
};

/* Rows that become lines of JSON. */
static const struct {
    const char *name, *bytes;
    size_t count;
    enum dt_kind_asked asked;
    enum dt_form form;
    enum dt_codec codec;
} rows[] = {
    /* tables by name, arrays by what they begin with */
    {"a.csv", BYTES("a,b\n1,2\n"), DT_ASKED_AUTO, DT_FORM_CSV, DT_CODEC_NONE},
    {"a.CSV", BYTES("a,b\n1,2\n"), DT_ASKED_TEXT, DT_FORM_CSV, DT_CODEC_NONE},
    {"a.b.tsv", BYTES("a\tb\n"), DT_ASKED_LINES, DT_FORM_TSV, DT_CODEC_NONE},
    {"a.TAB", BYTES("a\tb\n"), DT_ASKED_AUTO, DT_FORM_TSV, DT_CODEC_NONE},
    {"a.json", BYTES(" [\"a\"]"), DT_ASKED_AUTO, DT_FORM_ARRAY, DT_CODEC_NONE},
    {"a.txt", BYTES("[\n {\"text\": 1}]"), DT_ASKED_AUTO, DT_FORM_ARRAY,
     DT_CODEC_NONE},
    {"a.txt", BYTES("[1]"), DT_ASKED_LINES, DT_FORM_ARRAY, DT_CODEC_NONE},
    {"a.bin", BYTES("PAR1\x15"), DT_ASKED_AUTO, DT_FORM_PARQUET, DT_CODEC_NONE},
    {"a", BYTES("ARROW1\0\0"), DT_ASKED_TEXT, DT_FORM_ARROW, DT_CODEC_NONE},
    {"a", BYTES("\xff\xff\xff\xff\x10\x01\0\0"), DT_ASKED_LINES, DT_FORM_ARROW,
     DT_CODEC_NONE},
    /* compressed: {} and a,b, stored */
    {"a.jsonl.gz", BYTES(GZIP_OBJECT), DT_ASKED_AUTO, DT_FORM_PLAIN,
     DT_CODEC_GZIP},
    {"a.csv.gz", BYTES(GZIP_TABLE), DT_ASKED_AUTO, DT_FORM_CSV, DT_CODEC_GZIP},
    {"a", BYTES(ZSTD_OBJECT), DT_ASKED_AUTO, DT_FORM_PLAIN, DT_CODEC_ZSTD},
};

static const struct {
    const char *name, *bytes;
    size_t count;
    enum dt_kind_asked asked;
    const char *text; /* after the path */
} bad[] = {
    {"a.jsonl", BYTES("version https://git-lfs.github.com/spec/v1\n"),
     DT_ASKED_AUTO,
     ": this is a Git LFS pointer instead of the file: fetch it with `git lfs "
     "pull`"},
    {"a.bin", BYTES("version https://git-lfs.github.com/spec/v1\n"),
     DT_ASKED_TOKENS, ": this is a Git LFS pointer"},
    {"a.jsonl", BYTES("\x1f\x8b\x08\0"), DT_ASKED_LINES,
     ": cut short: its gzip data has no end"},
    {"a.txt.gz", BYTES(GZIP_TABLE), DT_ASKED_AUTO,
     ": compressed with gzip; only lines of JSON, JSON arrays, CSV and TSV are "
     "read so: unpack it with `gzip -d`"},
    {"a.txt", BYTES("BZh91AY&SY"), DT_ASKED_TEXT,
     ": this is compressed with bzip2: unpack it with `bzip2 -d`"},
    {"a",
     BYTES("\xfd"
           "7zXZ\0"),
     DT_ASKED_AUTO, ": this is compressed with xz: unpack it with `xz -d`"},
    {"a.bin", BYTES("\x28\xb5\x2f\xfd"), DT_ASKED_AUTO,
     ": compressed with zstd; only lines of JSON"},
    {"a", BYTES("\x04\x22\x4d\x18"), DT_ASKED_AUTO,
     ": this is compressed with lz4: unpack it with `lz4 -d`"},
    {"a", BYTES("PK\x03\x04"), DT_ASKED_AUTO,
     ": this is a zip archive: unpack it with `unzip`"},
    {"a", BYTES("FEA1"), DT_ASKED_AUTO, ": this is Feather: pandas."},
    {"a", BYTES("\x89HDF\r\n\x1a\n"), DT_ASKED_AUTO, ": this is HDF5: "},
    {"a.npy", BYTES("\x93NUMPY"), DT_ASKED_AUTO,
     ": this is a NumPy array: numpy.load(FILE).astype(\"<u2\").tofile("},
    {"a", BYTES("%PDF-1.7"), DT_ASKED_AUTO,
     ": this is PDF: `pdftotext` makes text of it"},
    {"a", BYTES("\xff\xfe\0\0a\0\0\0"), DT_ASKED_AUTO,
     ": this is UTF-32: `iconv -f UTF-32 -t UTF-8` makes UTF-8 of it"},
    {"a", BYTES("\0\0\xfe\xff\0\0\0a"), DT_ASKED_AUTO, ": this is UTF-32: "},
    {"a",
     BYTES("\xff\xfe"
           "a\0"),
     DT_ASKED_AUTO,
     ": this is UTF-16: `iconv -f UTF-16 -t UTF-8` makes UTF-8 of it"},
    {"a", BYTES("\xfe\xff\0a"), DT_ASKED_LINES, ": this is UTF-16: "},
    {"a", BYTES("a\0b\0\n\0"), DT_ASKED_TEXT,
     ": this is UTF-16 or binary: `iconv -f UTF-16LE -t UTF-8` makes UTF-8 of "
     "UTF-16"},
    {"a", BYTES("a\0\0\0b\0\0\0"), DT_ASKED_AUTO,
     ": this is UTF-32 or binary: `iconv -f UTF-32LE -t UTF-8` makes"},
    {"a", BYTES("words and\0 more"), DT_ASKED_AUTO,
     ": byte 9 is NUL: this is binary, not text; raw token ids need a name "
     "that ends in .bin, or format tokens_bin"},
    {"a.jsonl", "", 0, DT_ASKED_AUTO, ": empty"},
    /* tables that do not call themselves so */
    {"a.txt", BYTES("\xef\xbb\xbfprompt\tcompletion\r\na\tb\r\n"),
     DT_ASKED_AUTO,
     ": its first line is that of a table separated by tabs: let its name end "
     "in .tsv, or, if it is a text, say so: data.format: text"},
    {"a.csv.bak", BYTES("id,\"Text\"\n1,\"a\"\n"), DT_ASKED_AUTO,
     ": its first line is that of a table separated by commas: let its name "
     "end in .csv, or"},
    {"a.txt", BYTES("instruction;output\na;b\n"), DT_ASKED_AUTO,
     ": its first line is that of a table separated by semicolons: write it "
     "with commas, and let its name end in .csv, or"},
    /* and what is no ids */
    {"a.bin", BYTES("{\"text\": \"caf\xc3\xa9\"}\n"), DT_ASKED_AUTO,
     ": this is JSON, and no token ids: let its name end in .jsonl"},
    {"a.bin", BYTES("{\"text\": \"a\"}\n"), DT_ASKED_TOKENS,
     ": this is JSON, and no token ids"},
    {"a.bin",
     BYTES("Call me Ishmael. Some years ago - never mind how long precisely - "
           "having little or no money in my purse"),
     DT_ASKED_AUTO,
     ": this is text, and no token ids: let its name end in "
     ".txt"},
    {"a.bin", BYTES(GZIP_OBJECT), DT_ASKED_AUTO,
     ": this is compressed with gzip, and no token ids: unpack it with `gzip "
     "-d`"},
};

static void content_and_name_decide_the_kind_of_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct dt_error err;
        struct dt_found found;
        const char *path =
            scratch_write(good[i].name, good[i].bytes, good[i].count);
        if (dt_kind_find(path, good[i].asked, &found, &err) < 0)
            fail_msg("%zu: %s", i, err.text);
        if (found.kind != good[i].kind || found.form || found.codec)
            fail_msg("%zu: %s is %s, not %s", i, good[i].name,
                     dt_kind_name(&found),
                     dt_kind_name(&(struct dt_found){.kind = good[i].kind}));
    }
}

static void rows_are_found_in_tables_arrays_and_compressed_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dt_error err;
        struct dt_found found;
        const char *path =
            scratch_write(rows[i].name, rows[i].bytes, rows[i].count);
        if (!dt_codec_is_built(rows[i].codec))
            continue;
        if (dt_kind_find(path, rows[i].asked, &found, &err) < 0)
            fail_msg("%zu: %s", i, err.text);
        if (found.kind != DT_KIND_LINES || found.form != rows[i].form ||
            found.codec != rows[i].codec)
            fail_msg("%zu: %s is %s, form %d, codec %d", i, rows[i].name,
                     dt_kind_name(&found), found.form, found.codec);
    }
}

static void an_unreadable_format_is_refused_with_advice(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct dt_error err = {0};
        struct dt_found found;
        const char *path =
            scratch_write(bad[i].name, bad[i].bytes, bad[i].count);
        int rc = dt_kind_find(path, bad[i].asked, &found, &err);
        size_t n = strlen(path);
        if (rc == 0 || err.status != EX_DATAERR ||
            strncmp(err.text, path, n) != 0 ||
            strncmp(err.text + n, bad[i].text, strlen(bad[i].text)) != 0)
            fail_msg("%zu: expected \"%s\", got \"%s\"", i, bad[i].text,
                     err.text);
    }
}

/* A tar archive says what it is late; a file may end before that. */
static void a_tar_archive_is_recognized_and_refused(void **state)
{
    char bytes[512] = "file.txt";
    struct dt_error err;
    struct dt_found found;
    (void)state;
    strcpy(bytes + 257, "ustar");
    assert_int_equal(dt_kind_find(scratch_write("a", bytes, sizeof(bytes)),
                                  DT_ASKED_AUTO, &found, &err),
                     -1);
    assert_non_null(strstr(err.text, ": this is a tar archive: unpack it with "
                                     "`tar -xf`"));
}

static void a_missing_file_or_a_directory_is_refused(void **state)
{
    struct dt_error err;
    struct dt_found found;
    (void)state;
    assert_int_equal(
        dt_kind_find(scratch_path("none"), DT_ASKED_AUTO, &found, &err), -1);
    assert_int_equal(err.status, EX_NOINPUT);
    assert_int_equal(
        dt_kind_find(scratch_path("."), DT_ASKED_AUTO, &found, &err), -1);
    assert_non_null(strstr(err.text, ": not a regular file"));
}

static void a_format_tells_what_kind_is_expected(void **state)
{
    (void)state;
    assert_int_equal(dt_kind_asked_by(DT_FORMAT_AUTO), DT_ASKED_AUTO);
    assert_int_equal(dt_kind_asked_by(DT_FORMAT_TEXT), DT_ASKED_TEXT);
    assert_int_equal(dt_kind_asked_by(DT_FORMAT_TOKENS_BIN), DT_ASKED_TOKENS);
    assert_int_equal(dt_kind_asked_by(DT_FORMAT_PROMPT_COMPLETION),
                     DT_ASKED_LINES);
    assert_int_equal(dt_kind_asked_by(DT_FORMAT_MESSAGES), DT_ASKED_LINES);
    assert_int_equal(dt_kind_asked_by(DT_FORMAT_TOKENIZED), DT_ASKED_LINES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_format_tells_what_kind_is_expected),
        cmocka_unit_test(content_and_name_decide_the_kind_of_file),
        cmocka_unit_test(rows_are_found_in_tables_arrays_and_compressed_files),
        cmocka_unit_test(an_unreadable_format_is_refused_with_advice),
        cmocka_unit_test(a_tar_archive_is_recognized_and_refused),
        cmocka_unit_test(a_missing_file_or_a_directory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
