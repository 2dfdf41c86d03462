/* SPDX-License-Identifier: Apache-2.0 */
/* token.h - digits that nobody else can know */
#ifndef DTSPANK_TOKEN_H
#define DTSPANK_TOKEN_H

#include "contract/contract.h"

/* Writes 32 hexadecimal digits drawn at random. Returns 0, or -1 and errno. */
int dtspank_token_make(char token[DT_TOKEN_BYTES]);

#endif /* DTSPANK_TOKEN_H */
