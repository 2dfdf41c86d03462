/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_address.c - finds the address and the interface by which a node is
 * reached
 */
#include "config.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "doctor/doctor_address.h"

enum {
    RESOLVE_MS = 2000,
};

bool dt_doctor_interface(const union dt_net_address *address, char *name,
                         size_t size)
{
    struct ifaddrs *list = NULL;
    bool found = false;
    if (getifaddrs(&list) != 0)
        return false;
    for (struct ifaddrs *i = list; i && !found; i = i->ifa_next)
        if (dt_net_same_host(address, i->ifa_addr)) {
            snprintf(name, size, "%s", i->ifa_name);
            found = true;
        }
    freeifaddrs(list);
    return found;
}

/* A question to the resolver, which may take minutes. Both the thread and the
 * caller that waits for it hold the question; the last of them frees it.
 */
struct question {
    pthread_mutex_t mutex;
    int holders;
    char *name;
    int rc;
    union dt_net_address address;
};

static void question_drop(struct question *q)
{
    pthread_mutex_lock(&q->mutex);
    bool last = --q->holders == 0;
    pthread_mutex_unlock(&q->mutex);
    if (!last)
        return;
    pthread_mutex_destroy(&q->mutex);
    free(q->name);
    free(q);
}

static void *question_ask(void *arg)
{
    struct question *q = arg;
    struct addrinfo *list = NULL;
    struct addrinfo want = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    q->rc = getaddrinfo(q->name, NULL, &want, &list);
    if (q->rc != 0) {
        want.ai_family = AF_INET6;
        q->rc = getaddrinfo(q->name, NULL, &want, &list);
    }
    const struct addrinfo *best = list;
    for (const struct addrinfo *i = list; i; i = i->ai_next)
        if (dt_net_reach(i->ai_addr) > dt_net_reach(best->ai_addr))
            best = i;
    if (best)
        memcpy(&q->address, best->ai_addr, best->ai_addrlen);
    if (list)
        freeaddrinfo(list);
    question_drop(q);
    return NULL;
}

static struct question *question_create(const char *name)
{
    struct question *q = calloc(1, sizeof(*q));
    if (!q)
        return NULL;
    q->name = strdup(name);
    q->holders = 2;
    pthread_mutex_init(&q->mutex, NULL);
    if (q->name)
        return q;
    q->holders = 1;
    question_drop(q);
    return NULL;
}

bool dt_doctor_resolve(const char *name, int timeout_ms,
                       union dt_net_address *address, const char **why)
{
    struct timespec until = dt_clock_in(CLOCK_REALTIME, timeout_ms);
    struct question *q = question_create(name);
    pthread_t thread;
    *why = "out of memory";
    if (!q)
        return false;
    if (pthread_create(&thread, NULL, question_ask, q) != 0) {
        question_drop(q);
        question_drop(q);
        return false;
    }
    if (pthread_timedjoin_np(thread, NULL, &until) != 0) {
        pthread_detach(thread);
        question_drop(q);
        *why = "the name service does not answer";
        return false;
    }
    bool found = q->rc == 0;
    *address = q->address;
    *why = found ? NULL : gai_strerror(q->rc);
    question_drop(q);
    return found;
}

/* The source address of packets to `launcher`. */
static bool source_towards(const char *launcher, union dt_net_address *address)
{
    enum { ANY_PORT = 9 };
    union dt_net_address to;
    socklen_t length = dt_net_parse(&to, launcher, ANY_PORT);
    return length > 0 && dt_net_source(&to.any, length, address) == 0;
}

void dt_doctor_own_address(const struct dt_doctor_notes *notes,
                           const char *name, const char *launcher,
                           char text[DT_NET_ADDRESS_BYTES])
{
    union dt_net_address address;
    char interface[64];
    const char *why;
    if (dt_doctor_resolve(name, RESOLVE_MS, &address, &why)) {
        dt_net_print(&address, text);
        if (dt_net_reach(&address.any) == DT_NET_HOST)
            dt_doctor_bad(notes, DT_DOCTOR_INTERFACE,
                          "its own name resolves to %s there, where no other "
                          "node reaches it: correct /etc/hosts",
                          text);
        else if (!dt_doctor_interface(&address, interface, sizeof(interface)))
            dt_doctor_bad(notes, DT_DOCTOR_INTERFACE,
                          "its own name resolves to %s, which is not one of "
                          "its addresses: correct /etc/hosts or DNS",
                          text);
        else
            return;
    } else {
        dt_doctor_bad(notes, DT_DOCTOR_INTERFACE,
                      "its own name does not resolve there (%s): correct "
                      "/etc/hosts or DNS",
                      why);
    }
    if (launcher && source_towards(launcher, &address))
        dt_net_print(&address, text);
    else
        snprintf(text, DT_NET_ADDRESS_BYTES, "127.0.0.1");
}
