/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_image_fetch.c - any text as the image of a row: a data: URI is decoded,
 * and a path leads to the one file of the root, never out of it
 */
#include "config.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"
#include "image/store.h"

#define INSIDE "inside"

static char root[64];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void remove_root(void)
{
    dt_file_remove_tree(root, NULL);
}

/* The root has a file, a link to it, and links to places outside. */
static void make_root(void)
{
    char path[100];
    strcpy(root, "/dev/shm/disttrain-fuzz-XXXXXX");
    if (!mkdtemp(root))
        abort();
    atexit(remove_root);
    snprintf(path, sizeof(path), "%s/a", root);
    FILE *f = fopen(path, "w");
    if (!f || fputs(INSIDE, f) < 0 || fclose(f) != 0)
        abort();
    snprintf(path, sizeof(path), "%s/l", root);
    int bad = symlink("a", path);
    snprintf(path, sizeof(path), "%s/o", root);
    bad |= symlink("/etc", path);
    snprintf(path, sizeof(path), "%s/u", root);
    bad |= symlink("..", path);
    if (bad)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_image_file file;
    struct dt_error err = {0};
    char *text = malloc(size + 1);
    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    if (!root[0])
        make_root();
    if (dt_image_fetch(&file, text, root, &dt_image_limits_usual, &err) < 0) {
        if (file.data || !err.text[0] || strpbrk(err.text, "\n\033"))
            abort();
    } else if (strncasecmp(text, "data:", 5) != 0 &&
               (file.bytes != strlen(INSIDE) ||
                memcmp(file.data, INSIDE, file.bytes) != 0)) {
        abort();
    }
    free(file.data);
    free(text);
    return 0;
}
