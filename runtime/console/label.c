/* SPDX-License-Identifier: Apache-2.0 */
/* label.c - parses lines as srun --label writes them */
#include "config.h"

#include "console/label.h"

size_t dt_label_parse(const char *line, size_t len, uint32_t tasks,
                      uint32_t *rank)
{
    uint64_t number = 0;
    size_t width = 1; /* of the highest rank: all ranks are padded to it */
    for (uint32_t rest = tasks > 0 ? (tasks - 1) / 10 : 0; rest > 0; rest /= 10)
        width++;
    if (len < width + 2 || line[width] != ':' || line[width + 1] != ' ')
        return 0;
    size_t i = 0;
    while (i + 1 < width && line[i] == ' ')
        i++;
    for (; i < width; i++) {
        if (line[i] < '0' || line[i] > '9')
            return 0;
        number = number * 10 + (uint64_t)(line[i] - '0');
    }
    if (number >= tasks)
        return 0;
    *rank = (uint32_t)number;
    return width + 2;
}

bool dt_label_adds_newline(const char *text, size_t len)
{
    return len == DT_MESSAGE_BYTES + 1 && text[len - 1] == '\n';
}
