/* SPDX-License-Identifier: Apache-2.0 */
/* json.h - JSON files that other programs have written */
#ifndef DT_BASE_JSON_H
#define DT_BASE_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "base/error.h"

/* The substitute for U+0000 in jansson's keys, which cannot hold it: a code
 * point that is no character and in no text.
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

/* The number that a value is; NaN: it is none, or NULL. */
double dt_json_number(const json_t *value);

/* "an object", "a string" and so on, for messages; integers and other numbers
 * are told apart.
 */
const char *dt_json_type_name(json_type type);

/* Parses an object without reals, escaped U+0000, keys that occur twice or are
 * long, and deep nesting: exactly as json_loadb with JSON_REJECT_DUPLICATES;
 * release with json_decref. NULL: it is something else, or malformed, or there
 * is no memory: let jansson decide.
 */
json_t *dt_quick_json(const char *text, size_t bytes);

#endif /* DT_BASE_JSON_H */
