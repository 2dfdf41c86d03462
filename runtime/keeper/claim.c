/* SPDX-License-Identifier: Apache-2.0 */
/*
 * claim.c - the file of an epoch
 *
 * It is there as a whole or not at all, since who comes later is bound to what
 * is in it, and it is never created in its place: on object stores two halves
 * could do that at once.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/epoch.h"
#include "base/file.h"
#include "base/siphash.h"
#include "keeper/agree.h"

/* Writes a file of its own name. -1: it cannot be written. */
static int write_own(char *own, const char *proposal)
{
    const size_t bytes = strlen(proposal);
    int fd = mkostemp(own, O_CLOEXEC);
    if (fd < 0)
        return -1;
    const bool written = write(fd, proposal, bytes) == (ssize_t)bytes;
    const bool kept = fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP;
    if (close(fd) == 0 && kept && written)
        return 0;
    unlink(own);
    return -1;
}

/* Gives a whole file its name, unless that is taken. Which error says that a
 * file system has no hard links, or cannot rename so, is its own affair. -1: it
 * can do neither.
 */
static int place(const char *own, const char *path)
{
    if (link(own, path) == 0 || errno == EEXIST)
        return 0;
    return renameat2(AT_FDCWD, own, AT_FDCWD, path, RENAME_NOREPLACE) == 0 ||
                   errno == EEXIST
               ? 0
               : -1;
}

/* Creates the file, unless it exists. -1: it cannot be written. */
static int create(const char *path, const char *proposal)
{
    char own[PATH_MAX + sizeof(".XXXXXX")];
    snprintf(own, sizeof(own), "%s.XXXXXX", path);
    if (write_own(own, proposal) < 0)
        return -1;
    const bool placed = place(own, path) == 0;
    unlink(own);
    return placed ? 0 : -1;
}

/* Which proposal the file has is read back, as on a file system over a network
 * the answer to a link that was sent twice may be wrong.
 */
static enum dt_claim read_back(const char *path, const char *proposal)
{
    char found[DT_EPOCH_PROPOSAL_BYTES] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return DT_CLAIM_FAILED;
    const ssize_t got = read(fd, found, sizeof(found) - 1);
    close(fd);
    return got >= 0 && strcmp(found, proposal) == 0 ? DT_CLAIM_OURS
                                                    : DT_CLAIM_LOST;
}

enum dt_claim dt_epoch_claim(const char *dir, const char *step, uint32_t epoch,
                             const char *proposal)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/" DT_EPOCH_DIR, dir);
    if (dt_file_mkdirs(path, NULL) < 0)
        return DT_CLAIM_FAILED;
    dt_epoch_path(path, dir, step, epoch);
    return create(path, proposal) < 0 ? DT_CLAIM_FAILED
                                      : read_back(path, proposal);
}

void dt_epoch_step(const char *secret, char step[DT_EPOCH_STEP_BYTES])
{
    static const uint8_t word[DT_SIPHASH_BYTES] = "dt.epoch";
    uint8_t hash[DT_SIPHASH_BYTES];
    dt_siphash(word, secret, strlen(secret), hash);
    for (size_t i = 0; i < DT_EPOCH_STEP_BYTES / 2; i++)
        snprintf(step + 2 * i, 3, "%02x", hash[i]);
}
