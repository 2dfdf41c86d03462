/* SPDX-License-Identifier: Apache-2.0 */
/* token.c - digits that nobody else can know */
#include "config.h"

#include <stdio.h>
#include <sys/random.h>

#include "spank/srun/token.h"

int dtspank_token_make(char token[DT_TOKEN_BYTES])
{
    unsigned char bytes[(DT_TOKEN_BYTES - 1) / 2];
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return -1;
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}
