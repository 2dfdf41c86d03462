/* SPDX-License-Identifier: Apache-2.0 */
/* handshake.c - two ranks prove to each other that they know their token */
#include "config.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/handshake.h"

static const uint8_t magic[8] = "dtrank1";

/* The parts of a handshake, in their order. */
enum part {
    HELLO,
    CHALLENGE,
    ANSWER,
    WELCOME,
    PARTS,
};

static const size_t part_bytes[PARTS] = {
    [HELLO] = DT_HANDSHAKE_HELLO_BYTES,
    [CHALLENGE] = sizeof(((struct dt_handshake *)0)->nonce) + DT_SIPHASH_BYTES,
    [ANSWER] = DT_SIPHASH_BYTES,
    [WELCOME] = 1,
};

static void put_rank(uint8_t *to, int rank)
{
    uint32_t word = htole32((uint32_t)rank);
    memcpy(to, &word, sizeof(word));
}

static int64_t get_rank(const uint8_t *from)
{
    uint32_t word;
    memcpy(&word, from, sizeof(word));
    return le32toh(word);
}

/* The proof of one side that it knows the token. */
static void prove(const struct dt_handshake *h, enum part part,
                  uint8_t proof[DT_SIPHASH_BYTES])
{
    struct {
        uint8_t part[8], hello[sizeof(h->hello)], nonce[sizeof(h->nonce)];
    } said = {.part = {(uint8_t)part}};
    memcpy(said.hello, h->hello, sizeof(said.hello));
    memcpy(said.nonce, h->nonce, sizeof(said.nonce));
    dt_siphash(h->token->key, &said, sizeof(said), proof);
}

/* Compares all bytes however many differ: how long it takes tells nothing. */
static bool is_proof(const struct dt_handshake *h, enum part part,
                     const uint8_t *said)
{
    uint8_t proof[DT_SIPHASH_BYTES], differs = 0;
    prove(h, part, proof);
    for (size_t i = 0; i < sizeof(proof); i++)
        differs |= proof[i] ^ said[i];
    return !differs;
}

bool dt_handshake_sends(const struct dt_handshake *h)
{
    bool of_listener = h->turn == CHALLENGE || h->turn == WELCOME;
    return of_listener == h->listens;
}

/* Writes the part that is to be sent. */
static int compose(struct dt_handshake *h)
{
    uint8_t *nonce = h->turn == HELLO ? h->hello + 16 : h->nonce;
    h->done = 0;
    h->count = part_bytes[h->turn];
    if (!dt_handshake_sends(h))
        return 0;
    if ((h->turn == HELLO || h->turn == CHALLENGE) &&
        getrandom(nonce, DT_SIPHASH_BYTES, 0) != DT_SIPHASH_BYTES)
        return -1;
    switch (h->turn) {
    case HELLO:
        memcpy(h->hello, magic, sizeof(magic));
        put_rank(h->hello + 8, h->rank);
        put_rank(h->hello + 12, h->peer);
        memcpy(h->bytes, h->hello, sizeof(h->hello));
        break;
    case CHALLENGE:
        memcpy(h->bytes, h->nonce, sizeof(h->nonce));
        prove(h, CHALLENGE, h->bytes + sizeof(h->nonce));
        break;
    case ANSWER:
        prove(h, ANSWER, h->bytes);
        break;
    default:
        h->bytes[0] = 'w';
    }
    return 0;
}

/* Looks at the part that was received. */
static bool is_right(struct dt_handshake *h)
{
    switch (h->turn) {
    case HELLO:
        memcpy(h->hello, h->bytes, sizeof(h->hello));
        return memcmp(h->hello, magic, sizeof(magic)) == 0 &&
               get_rank(h->hello + 8) < h->size &&
               get_rank(h->hello + 12) == h->rank;
    case CHALLENGE:
        memcpy(h->nonce, h->bytes, sizeof(h->nonce));
        return is_proof(h, CHALLENGE, h->bytes + sizeof(h->nonce));
    case ANSWER:
        if (!is_proof(h, ANSWER, h->bytes))
            return false;
        h->peer = (int)get_rank(h->hello + 8);
        return true;
    default:
        return true;
    }
}

void dt_handshake_begin(struct dt_handshake *h, const struct dt_token *token,
                        int rank, int size, int peer)
{
    *h = (struct dt_handshake){
        .token = token,
        .listens = peer < 0,
        .rank = rank,
        .peer = peer,
        .size = size,
    };
}

/* Sends or receives more of the present part. */
static int move_bytes(struct dt_handshake *h, int fd)
{
    bool sends = dt_handshake_sends(h);
    ssize_t n =
        sends ? send(fd, h->bytes + h->done, h->count - h->done,
                     MSG_NOSIGNAL | MSG_DONTWAIT)
              : recv(fd, h->bytes + h->done, h->count - h->done, MSG_DONTWAIT);
    if (n > 0)
        h->done += (size_t)n;
    if (n == 0 || (n < 0 && errno == EPIPE))
        errno = ECONNRESET;
    return n > 0 ? 0 : -1;
}

int dt_handshake_continue(struct dt_handshake *h, int fd)
{
    while (h->turn < PARTS) {
        if (h->count == 0 && compose(h) < 0)
            return -1;
        while (h->done < h->count)
            if (move_bytes(h, fd) < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : -1;
        if (!dt_handshake_sends(h) && !is_right(h)) {
            errno = EPROTO;
            return -1;
        }
        h->turn++;
        h->count = 0;
    }
    return 1;
}

const char *dt_handshake_error(int error)
{
    return error == EPROTO ? "it does not know the token of this run"
                           : strerror(error);
}
