/* SPDX-License-Identifier: Apache-2.0 */
/* generate_ranks.c - connects the ranks, and prints their lines on rank 0 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "cmd/generate_ranks.h"
#include "run/launch_comm.h"

enum {
    PIECE = 1 << 20, /* bytes that travel at a time */
    AGREE_MS = 60000,
    WAIT_MS = 1800000, /* for the slowest rank to complete its next prompts */
};

/* The lines of a rank; only rank 0 keeps those of others. */
struct part {
    char *text;
    size_t bytes, printed;
};

static int part_piece(struct dt_comm *comm, struct dt_buffer *piece, int from,
                      size_t bytes, struct dt_error *err)
{
    size_t count = (bytes + sizeof(int32_t) - 1) / sizeof(int32_t);
    struct dt_view view = dt_view_slice(dt_view_of(piece, DT_I32), 0, count);
    dt_ticket_t ticket;
    if (dt_comm_broadcast(comm, view, from, &ticket, err) < 0)
        return -1;
    return dt_comm_wait(comm, ticket, err);
}

/* Brings the text of rank `from` to rank 0, by broadcasts, since comm has no
 * messages between two ranks; texts take little time compared with the model
 * that writes them.
 */
static int part_send(struct dt_comm *comm, struct part *part, int from,
                     const char *text, struct dt_buffer *piece,
                     struct dt_error *err)
{
    int rank = dt_comm_rank(comm);
    if (rank == 0 && !(part->text = malloc(part->bytes + 1)))
        return dt_error_set(err, EX_OSERR, "out of memory");
    if (from == 0) {
        if (rank == 0)
            memcpy(part->text, text, part->bytes);
        return 0;
    }
    for (size_t at = 0; at < part->bytes; at += PIECE) {
        size_t left = part->bytes - at, bytes = left < PIECE ? left : PIECE;
        if (rank == from)
            memcpy(piece->data, text + at, bytes);
        if (part_piece(comm, piece, from, bytes, err) < 0)
            return -1;
        if (rank == 0)
            memcpy(part->text + at, piece->data, bytes);
    }
    return 0;
}

/* Prints the next line of a part, if there is one; 1: there was none. */
static int part_print(struct part *part)
{
    const char *line = part->text + part->printed;
    const char *end =
        part->text ? memchr(line, '\n', part->bytes - part->printed) : NULL;
    if (!end)
        return 1;
    size_t bytes = (size_t)(end - line) + 1;
    part->printed += bytes;
    return fwrite(line, 1, bytes, stdout) == bytes ? 0 : -1;
}

static int print_parts(struct part *parts, int size, struct dt_error *err)
{
    int rc = 0;
    for (int r = 0; rc == 0; r = (r + 1) % size)
        rc = part_print(&parts[r]);
    if (rc < 0 || fflush(stdout))
        return dt_error_set(err, EX_IOERR, "cannot write: %s", strerror(errno));
    return 0;
}

static int gather(struct dt_comm *comm, const char *text, struct part *parts,
                  double *bytes, struct dt_buffer *piece, struct dt_error *err)
{
    int size = dt_comm_size(comm);
    if (dt_comm_reduce_scalars(comm, bytes, (size_t)size, DT_SUM, err) < 0)
        return -1;
    for (int r = 0; r < size; r++) {
        parts[r].bytes = (size_t)bytes[r];
        if (part_send(comm, &parts[r], r, text, piece, err) < 0)
            return -1;
    }
    if (dt_comm_rank(comm) == 0 && print_parts(parts, size, err) < 0)
        return -1;
    return dt_comm_barrier(comm, err);
}

int dt_generate_gather(struct dt_comm *comm, const char *text, size_t bytes,
                       struct dt_error *err)
{
    size_t size = (size_t)dt_comm_size(comm);
    struct part *parts = calloc(size, sizeof(*parts));
    double *sizes = calloc(size, sizeof(*sizes));
    struct dt_buffer *piece = dt_buffer_create(&dt_cpu, PIECE, "texts", err);
    int result = -1;
    if (!parts || !sizes)
        dt_error_set(err, EX_OSERR, "out of memory");
    else if (piece) {
        sizes[dt_comm_rank(comm)] = (double)bytes;
        result = gather(comm, text, parts, sizes, piece, err);
    }
    for (size_t r = 0; parts && r < size; r++)
        free(parts[r].text);
    dt_buffer_destroy(piece);
    free(sizes);
    free(parts);
    return result;
}

struct dt_comm *dt_generate_connect(const char *device,
                                    const struct dt_backend *backend,
                                    struct dt_launch *launch,
                                    struct dt_error *err)
{
    const struct dt_comm_world world = dt_world_of(launch);
    const struct dt_comm_options options = {.timeout_ms = WAIT_MS};
    if (!strcmp(device, "auto") && world.size > 1 &&
        dt_backend_agree(backend, &world, AGREE_MS, err) < 0)
        return NULL;
    return dt_comm_create("gloo", &world, &options, err);
}
