/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk.h - the calls that make files durable, recorded or refused
 *
 * A program that links disk.c has these of libc's functions replaced: open,
 * read, write, fsync, close, rename, renameat2, symlink.
 */
#ifndef TESTS_UNIT_DISK_H
#define TESTS_UNIT_DISK_H

/* From now on `call` fails with `error` on every path that ends in `name` (of
 * two paths: the second); with EINTR only once. NULL: nothing is refused any
 * more.
 */
void disk_refuse(const char *call, const char *name, int error);

/* Records fsync, rename, renameat2 and symlink from now on. */
void disk_record(void);

/* What was recorded, one a line: "fsync NAME", "rename NAME NAME", names
 * without directories; stops recording.
 */
const char *disk_recorded(void);

/* Descriptors that are open. */
int disk_open_count(void);

#endif /* TESTS_UNIT_DISK_H */
