/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk.h - records or refuses the calls that make files durable
 *
 * In a program that links disk.c, these functions of libc are replaced: open,
 * read, write, fsync, close, rename, renameat2, link, symlink, readlink, mkdir,
 * rmdir, access, statvfs. Names are without the nonces of temporary
 * directories.
 */
#ifndef TESTS_UNIT_DISK_H
#define TESTS_UNIT_DISK_H

/* Lets `call` fail from now on with `error` for every path (the second of two)
 * that ends in `name`; EINTR only once. NULL: refuses nothing.
 */
void disk_refuse(const char *call, const char *name, int error);

/* The same for one call. */
void disk_refuse_once(const char *call, const char *name, int error);

/* Records fsync, rename, renameat2, link and symlink from now on. */
void disk_record(void);

/* Calls `before` before each of these calls, with the paths: "mkdir", "create"
 * (an open that may), "write", "fsync", "close" (of what may be written to),
 * "rename", "renameat2", "link", "symlink", but for those that it makes itself.
 * It may wait, as a disk that does not answer. The call fails with the error
 * that it returns; 0: it is made. NULL: no more.
 */
void disk_watch(int (*before)(const char *call, const char *a, const char *b));

/* Stops recording and returns the recorded calls, one on each line: "fsync
 * NAME", "rename NAME NAME", with names without directories.
 */
const char *disk_recorded(void);

/* From now on this many bytes are free on every file system; -1: as it is. */
void disk_leave(double bytes);

/* The number of open descriptors. */
int disk_open_count(void);

#endif /* TESTS_UNIT_DISK_H */
