/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer.h - whether the kernel of a host answers
 *
 * A kernel that lives answers a packet to a port at once, also where nothing
 * listens: with a refusal. Where a process listens that is stopped, it does not
 * once the queue of that socket is full. So a port is asked where hardly
 * anything listens, and whoever asks another one asks this one, too.
 */
#ifndef DT_BASE_ANSWER_H
#define DT_BASE_ANSWER_H

#include <stdbool.h>

#include "base/net.h"

enum { DT_ANSWER_PORT = 9 /* discard */ };

enum dt_answer {
    DT_ANSWER_SILENCE, /* the host says nothing, or routers do not find it */
    DT_ANSWER_REFUSED, /* its kernel says that nobody listens there */
    DT_ANSWER_OPEN,    /* somebody does, or did */
    DT_ANSWER_UNKNOWN, /* nothing was asked: this host has failed */
};

/* What the error of a connection says, 0 for none; `sent`: it came after the
 * first packet has left.
 */
enum dt_answer dt_answer_of(int error, bool sent);

/* Sends the first packet of a connection to a port. Returns the socket, which
 * can be written to once there is an answer; -1: *answer is known now.
 */
int dt_answer_ask(const union dt_net_address *host, unsigned port,
                  enum dt_answer *answer);

/* Closes a socket that can be written to. Returns the answer. */
enum dt_answer dt_answer_take(int fd);

/* The answer of a port at a numeric address within `ms`. */
enum dt_answer dt_answer_get(const char *address, unsigned port, int ms);

#endif /* DT_BASE_ANSWER_H */
