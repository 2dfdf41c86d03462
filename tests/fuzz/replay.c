/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.c - a fuzz target without libFuzzer: every file of its corpus once
 *
 * CORPUS is the name of the folder in tests/fuzz/corpus.
 */
#include "config.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void replay(const char *path)
{
    struct dt_map map;
    struct dt_error err;
    if (dt_map_init(&map, path, &err) < 0) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    LLVMFuzzerTestOneInput(map.data, map.bytes);
    dt_map_fini(&map);
}

int main(void)
{
    char path[4096];
    const char *root = getenv("DT_SRCDIR");
    struct dirent **entries;
    snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/" CORPUS,
             root ? root : ".");
    int count = scandir(path, &entries, NULL, alphasort), done = 0;
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.') {
            snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/" CORPUS "/%s",
                     root ? root : ".", entries[i]->d_name);
            replay(path);
            printf("ok %d - " CORPUS "/%s\n", ++done, entries[i]->d_name);
        }
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    printf("1..%d\n", done);
    return done > 0 ? 0 : 1;
}
