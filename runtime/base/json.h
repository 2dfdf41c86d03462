/* SPDX-License-Identifier: Apache-2.0 */
/* json.h - JSON files that other programs have written */
#ifndef DT_BASE_JSON_H
#define DT_BASE_JSON_H

#include <jansson.h>

#include "base/error.h"

/* What jansson's keys have for U+0000, which they cannot hold: a code point
 * that is no character and in no text.
 */
#define DT_JSON_NUL "\uFDD0"

/* Parses `text`, the content of the file `path`; release with json_decref. Keys
 * that occur twice are refused. U+0000 is allowed in strings: use
 * json_string_length; in keys it is DT_JSON_NUL. An integer beyond 64 bits,
 * which Python writes for "no limit", becomes a real number near it: harmless
 * where nobody reads it, and of the wrong type where an integer is expected.
 * NULL and err: EX_OSERR, EX_DATAERR "<path>:<line>:<column>: <why>", a byte
 * order mark, or that of dt_foreign_pointer.
 */
json_t *dt_json_parse(const char *path, const char *text, struct dt_error *err);

/* "an object", "a string" and so on, for messages; integers and other numbers
 * are told apart.
 */
const char *dt_json_type_name(json_type type);

#endif /* DT_BASE_JSON_H */
