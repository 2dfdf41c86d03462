/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c - messages over a stream socket */
#include "config.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "launch/wire.h"

const char dt_wire_release[DT_WIRE_RELEASE_BYTES] = PACKAGE_VERSION;

enum {
    MAGIC = 0x31776474, /* "dtw1" */
    PIECE = 64 * 1024,  /* bytes read at once, at least */
};

#define MOST_BYTES ((uint64_t)1 << 30) /* of a body */

struct header {
    uint32_t magic, type, life, unused;
    uint64_t bytes;
};

void dt_wire_init(struct dt_wire *wire, int fd)
{
    *wire = (struct dt_wire){.fd = fd};
}

void dt_wire_close(struct dt_wire *wire)
{
    if (wire->fd >= 0)
        close(wire->fd);
    free(wire->in);
    free(wire->out);
    *wire = (struct dt_wire){.fd = -1};
}

/* Makes room for `bytes` more bytes after data[begin, used), which move to the
 * front.
 */
static int make_room(uint8_t **data, size_t *begin, size_t *used, size_t *size,
                     size_t bytes)
{
    if (*begin > 0) {
        memmove(*data, *data + *begin, *used - *begin);
        *used -= *begin;
        *begin = 0;
    }
    if (*size - *used >= bytes)
        return 0;
    size_t more = 2 * *size > *used + bytes ? 2 * *size : *used + bytes;
    uint8_t *grown = realloc(*data, more);
    if (!grown) {
        errno = ENOMEM;
        return -1;
    }
    *data = grown;
    *size = more;
    return 0;
}

static void queue_bytes(struct dt_wire *wire, const void *data, size_t bytes)
{
    if (bytes > 0)
        memcpy(wire->out + wire->out_used, data, bytes);
    wire->out_used += bytes;
}

/* A message is lost: nothing more is sent. */
static int break_off(struct dt_wire *wire)
{
    const int bad = errno;
    shutdown(wire->fd, SHUT_RDWR);
    wire->out_begin = wire->out_used = 0;
    errno = bad;
    return -1;
}

int dt_wire_send(struct dt_wire *wire, enum dt_wire_type type, uint32_t life,
                 const void *head, size_t head_bytes, const void *tail,
                 size_t tail_bytes)
{
    const struct header header = {
        .magic = htole32(MAGIC),
        .type = htole32((uint32_t)type),
        .life = htole32(life),
        .bytes = htole64(head_bytes + tail_bytes),
    };
    if (wire->fd < 0) {
        errno = ECONNRESET;
        return -1;
    }
    if (make_room(&wire->out, &wire->out_begin, &wire->out_used,
                  &wire->out_size,
                  sizeof(header) + head_bytes + tail_bytes) < 0)
        return break_off(wire);
    queue_bytes(wire, &header, sizeof(header));
    queue_bytes(wire, head, head_bytes);
    queue_bytes(wire, tail, tail_bytes);
    return dt_wire_flush(wire);
}

int dt_wire_flush(struct dt_wire *wire)
{
    while (dt_wire_pending(wire)) {
        ssize_t n =
            send(wire->fd, wire->out + wire->out_begin,
                 wire->out_used - wire->out_begin, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : break_off(wire);
        wire->out_begin += (size_t)n;
    }
    wire->out_begin = wire->out_used = 0;
    return 0;
}

bool dt_wire_pending(const struct dt_wire *wire)
{
    return wire->out_used > wire->out_begin;
}

int dt_wire_receive(struct dt_wire *wire)
{
    for (;;) {
        if (make_room(&wire->in, &wire->in_begin, &wire->in_used,
                      &wire->in_size, PIECE) < 0)
            return -1;
        ssize_t n = recv(wire->fd, wire->in + wire->in_used,
                         wire->in_size - wire->in_used, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : -1;
        if (n == 0) {
            errno = ECONNRESET;
            return -1;
        }
        wire->in_used += (size_t)n;
    }
}

int dt_wire_next(struct dt_wire *wire, struct dt_wire_message *message)
{
    const size_t there = wire->in_used - wire->in_begin;
    struct header header;
    if (there < sizeof(header))
        return 0;
    memcpy(&header, wire->in + wire->in_begin, sizeof(header));
    const uint64_t bytes = le64toh(header.bytes);
    const uint32_t type = le32toh(header.type);
    if (le32toh(header.magic) != MAGIC || type == 0 || type >= DT_WIRE_TYPES ||
        bytes > MOST_BYTES) {
        errno = EPROTO;
        return -1;
    }
    if (there - sizeof(header) < bytes)
        return 0;
    *message = (struct dt_wire_message){
        .type = (enum dt_wire_type)type,
        .life = le32toh(header.life),
        .bytes = bytes,
        .body = wire->in + wire->in_begin + sizeof(header),
    };
    wire->in_begin += sizeof(header) + bytes;
    return 1;
}

int dt_wire_wait(struct dt_wire *wire, int ms)
{
    const double end = dt_clock_now() + ms / 1e3;
    for (;;) {
        const double left = end - dt_clock_now();
        struct pollfd p = {.fd = wire->fd, .events = POLLIN};
        if (dt_wire_pending(wire))
            p.events |= POLLOUT;
        int n = poll(&p, 1, left > 0 ? (int)(left * 1e3) + 1 : 0);
        if (n < 0 && errno != EINTR)
            return -1;
        if (n > 0 && (p.revents & POLLOUT) && dt_wire_flush(wire) < 0)
            return -1;
        if (n > 0 && (p.revents & ~POLLOUT))
            return 1;
        if (left <= 0)
            return 0;
    }
}
