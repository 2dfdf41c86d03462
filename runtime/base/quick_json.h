/* SPDX-License-Identifier: Apache-2.0 */
/* quick_json.h - parses common JSON several times as fast as jansson */
#ifndef DT_BASE_QUICK_JSON_H
#define DT_BASE_QUICK_JSON_H

#include <stddef.h>

#include <jansson.h>

/* Parses an object without reals, escaped U+0000, keys that occur twice or are
 * long, and deep nesting: exactly as json_loadb with JSON_REJECT_DUPLICATES;
 * release with json_decref. NULL: it is something else, or malformed, or there
 * is no memory: let jansson decide.
 */
json_t *dt_quick_json(const char *text, size_t bytes);

#endif /* DT_BASE_QUICK_JSON_H */
