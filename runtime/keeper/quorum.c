/* SPDX-License-Identifier: Apache-2.0 */
/* quorum.c - which side goes on when a step loses nodes */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/epoch.h"
#include "base/file.h"
#include "keeper/keeper_impl.h"

enum dt_quorum dt_quorum(int live, int all)
{
    return 2 * live > all    ? DT_QUORUM_MORE
           : 2 * live == all ? DT_QUORUM_HALF
                             : DT_QUORUM_LESS;
}

/* Writes the file, which must not exist, and reads it back: on a file system
 * over a network the answer to a create that was sent twice may be wrong.
 */
static enum dt_claim claim_now(const char *path, const char *nonce)
{
    char found[DT_EPOCH_NONCE_BYTES] = "";
    const size_t bytes = strlen(nonce);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 && errno != EEXIST)
        return DT_CLAIM_FAILED;
    if (fd >= 0) {
        const bool written = write(fd, nonce, bytes) == (ssize_t)bytes;
        if ((fsync(fd) < 0 || close(fd) < 0) || !written)
            return DT_CLAIM_FAILED;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return DT_CLAIM_FAILED;
    const ssize_t got = read(fd, found, sizeof(found) - 1);
    close(fd);
    return got == (ssize_t)bytes && strcmp(found, nonce) == 0 ? DT_CLAIM_OURS
                                                              : DT_CLAIM_LOST;
}

enum dt_claim dt_epoch_claim(const char *dir, const char *step, uint32_t epoch)
{
    char path[PATH_MAX], nonce[DT_EPOCH_NONCE_BYTES];
    uint64_t random[2];
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return DT_CLAIM_FAILED;
    snprintf(nonce, sizeof(nonce), "%016" PRIx64 "%016" PRIx64, random[0],
             random[1]);
    snprintf(path, sizeof(path), "%s/" DT_EPOCH_DIR, dir);
    if (dt_file_mkdirs(path, NULL) < 0)
        return DT_CLAIM_FAILED;
    dt_epoch_path(path, dir, step, epoch);
    return claim_now(path, nonce);
}

void dt_epoch_step(const char *secret, char step[DT_EPOCH_STEP_BYTES])
{
    static const uint8_t word[DT_SIPHASH_BYTES] = "dt.epoch";
    uint8_t hash[DT_SIPHASH_BYTES];
    dt_siphash(word, secret, strlen(secret), hash);
    for (size_t i = 0; i < DT_EPOCH_STEP_BYTES / 2; i++)
        snprintf(step + 2 * i, 3, "%02x", hash[i]);
}
