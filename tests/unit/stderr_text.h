/* SPDX-License-Identifier: Apache-2.0 */
/* stderr_text.h - what is written to stderr between two calls */
#ifndef TESTS_UNIT_STDERR_TEXT_H
#define TESTS_UNIT_STDERR_TEXT_H

#include <stdio.h>
#include <unistd.h>

struct stderr_text {
    int saved;
    FILE *file;
};

static inline struct stderr_text stderr_text_begin(void)
{
    struct stderr_text s = {.saved = dup(STDERR_FILENO), .file = tmpfile()};
    assert_true(s.file && s.saved >= 0);
    fflush(stderr);
    assert_int_equal(dup2(fileno(s.file), STDERR_FILENO), STDERR_FILENO);
    return s;
}

/* Stores at most `size` bytes, the final null byte included. */
static inline void stderr_text_end(struct stderr_text *s, char *text,
                                   size_t size)
{
    fflush(stderr);
    assert_int_equal(dup2(s->saved, STDERR_FILENO), STDERR_FILENO);
    close(s->saved);
    rewind(s->file);
    text[fread(text, 1, size - 1, s->file)] = '\0';
    fclose(s->file);
}

#endif /* TESTS_UNIT_STDERR_TEXT_H */
