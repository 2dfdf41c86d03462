/* SPDX-License-Identifier: Apache-2.0 */
/* count.h - counts how often a text has a part */
#ifndef TESTS_UNIT_COUNT_H
#define TESTS_UNIT_COUNT_H

#include <stddef.h>
#include <string.h>

static inline size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    while ((text = strstr(text, part)) != NULL) {
        text += strlen(part);
        count++;
    }
    return count;
}

#endif /* TESTS_UNIT_COUNT_H */
