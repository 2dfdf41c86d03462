/* SPDX-License-Identifier: Apache-2.0 */
/* snappy.h - unpacks blocks of Snappy, which Parquet's pages are by default */
#ifndef DT_DATA_FORMS_SNAPPY_H
#define DT_DATA_FORMS_SNAPPY_H

#include <stddef.h>

/* Unpacks `count` bytes that become exactly `bytes` bytes. -1: they do not. */
int dt_snappy_unpack(const void *from, size_t count, void *to, size_t bytes);

#endif /* DT_DATA_FORMS_SNAPPY_H */
