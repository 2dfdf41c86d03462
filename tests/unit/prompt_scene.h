/* SPDX-License-Identifier: Apache-2.0 */
/* prompt_scene.h - the prompts of tiny runs that sample completions */
#ifndef TESTS_UNIT_PROMPT_SCENE_H
#define TESTS_UNIT_PROMPT_SCENE_H

#include "tests/unit/small_run.h"

/* Bytes are random at first, and many of them are not printable. */
#define PRINTABLE                                                              \
    "reward: {functions: [{type: regex, pattern: \"(?s)[ -~].*\"}]}\n"

enum { PROMPTS = 10 };

static inline int prompts_enter(void **state)
{
    (void)state;
    dt_log_init(0, DT_LOG_ERROR);
    if (chdir("/") < 0 || !scratch_path("") || chdir(scratch_path("")) < 0)
        return -1;
    FILE *file = fopen("prompts.jsonl", "w");
    for (int i = 0; i < PROMPTS; i++)
        fprintf(file, "{\"prompt\": \"%.*s\", \"answer\": \"%d\"}\n", i % 4 + 1,
                &"abcdefgh"[i % 5], i);
    return fclose(file);
}

#endif /* TESTS_UNIT_PROMPT_SCENE_H */
