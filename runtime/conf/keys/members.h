/* SPDX-License-Identifier: Apache-2.0 */
/*
 * members.h - makes members of struct dt_conf from the definitions of keys, for
 * conf.h; end.h takes these short names back
 *
 * A definition is KIND(section, key, attributes); schema.c has the other half,
 * a row for each.
 */
/* clang-format off */
#define BOOL(section, key, ...) bool key;
#define INT(section, key, ...) long key;
#define U64(section, key, ...) uint64_t key;
#define REAL(section, key, ...) double key;
#define SIZE(section, key, ...) long key;
#define COUNT(section, key, ...) long key; double key##_ratio;
#define TEXT(section, key, ...) char *key;
#define DIR(section, key, ...) char *key;
#define OLD_DIR(section, key, ...) char *key;
#define FREE(section, key, ...) char *key;
#define FILES(section, key, ...) struct dt_conf_list key;
#define LIST(section, key, ...) struct dt_conf_list key;
#define ENUM(section, key, ...) int key;
#define BOOL_OR_WORD(section, key, ...) int key;
#define INT_OR_WORD(section, key, ...) long key;
#define OLD_OR_WORD(section, key, ...) int key; char *key##_path;
#define FILE_OR_WORD(section, key, ...) int key; char *key##_path;

/* A key whose value has another name, or no member at all. */
#define ROW(section, key, KIND, ...)
#define MEMBER(type, name) type name;

/* Keys between these are members of a structure in the section. */
#define GROUP(name) struct {
#define END(name) } name;
