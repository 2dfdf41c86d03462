/* SPDX-License-Identifier: Apache-2.0 */
/* address.c - by which address and interface a node is reached */
#include "config.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "doctor/address.h"

enum {
    RESOLVE_MS = 2000,
};

socklen_t dt_doctor_address_parse(union dt_doctor_address *address,
                                  const char *text, unsigned port)
{
    memset(address, 0, sizeof(*address));
    if (inet_pton(AF_INET, text, &address->v4.sin_addr) == 1) {
        address->v4.sin_family = AF_INET;
        address->v4.sin_port = htons((in_port_t)port);
        return sizeof(address->v4);
    }
    if (inet_pton(AF_INET6, text, &address->v6.sin6_addr) == 1) {
        address->v6.sin6_family = AF_INET6;
        address->v6.sin6_port = htons((in_port_t)port);
        return sizeof(address->v6);
    }
    return 0;
}

void dt_doctor_address_print(const union dt_doctor_address *address,
                             char text[DT_DOCTOR_ADDRESS_BYTES])
{
    const void *bytes = address->any.sa_family == AF_INET6
                            ? (const void *)&address->v6.sin6_addr
                            : (const void *)&address->v4.sin_addr;
    text[0] = '\0';
    inet_ntop(address->any.sa_family, bytes, text, DT_DOCTOR_ADDRESS_BYTES);
}

static bool same_host(const union dt_doctor_address *a,
                      const struct sockaddr *other)
{
    union dt_doctor_address b = {0};
    if (!other || other->sa_family != a->any.sa_family)
        return false;
    if (other->sa_family == AF_INET) {
        memcpy(&b.v4, other, sizeof(b.v4));
        return a->v4.sin_addr.s_addr == b.v4.sin_addr.s_addr;
    }
    if (other->sa_family != AF_INET6)
        return false;
    memcpy(&b.v6, other, sizeof(b.v6));
    return IN6_ARE_ADDR_EQUAL(&a->v6.sin6_addr, &b.v6.sin6_addr);
}

bool dt_doctor_interface(const union dt_doctor_address *address, char *name,
                         size_t size)
{
    struct ifaddrs *list = NULL;
    bool found = false;
    if (getifaddrs(&list) != 0)
        return false;
    for (struct ifaddrs *i = list; i && !found; i = i->ifa_next)
        if (same_host(address, i->ifa_addr)) {
            snprintf(name, size, "%s", i->ifa_name);
            found = true;
        }
    freeifaddrs(list);
    return found;
}

/* A question to the resolver, which may take minutes: whoever is last, the
 * thread or the one who waits for it, frees it.
 */
struct question {
    pthread_mutex_t mutex;
    int holders;
    char *name;
    int rc;
    union dt_doctor_address address;
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
    if (q->rc == 0) {
        memcpy(&q->address, list->ai_addr, list->ai_addrlen);
        freeaddrinfo(list);
    }
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
                       union dt_doctor_address *address, const char **why)
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

static bool is_loopback(const union dt_doctor_address *address)
{
    if (address->any.sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
    return ntohl(address->v4.sin_addr.s_addr) >> 24 == 127;
}

/* The source address of packets to `launcher`; none are sent. */
static bool source_towards(const char *launcher,
                           union dt_doctor_address *address)
{
    enum { ANY_PORT = 9 };
    socklen_t len = dt_doctor_address_parse(address, launcher, ANY_PORT);
    int fd = len > 0
                 ? socket(address->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0)
                 : -1;
    if (fd < 0)
        return false;
    bool found = connect(fd, &address->any, len) == 0;
    len = sizeof(*address);
    found = found && getsockname(fd, &address->any, &len) == 0;
    close(fd);
    return found;
}

void dt_doctor_own_address(const struct dt_doctor_notes *notes,
                           const char *name, const char *launcher,
                           char text[DT_DOCTOR_ADDRESS_BYTES])
{
    union dt_doctor_address address;
    char interface[64];
    const char *why;
    if (dt_doctor_resolve(name, RESOLVE_MS, &address, &why)) {
        dt_doctor_address_print(&address, text);
        if (is_loopback(&address))
            dt_doctor_bad(notes, DT_DOCTOR_INTERFACE,
                          "its own name resolves to %s there, where no other "
                          "node reaches it: correct /etc/hosts",
                          text);
        else if (!dt_doctor_interface(&address, interface, sizeof(interface)))
            dt_doctor_bad(notes, DT_DOCTOR_INTERFACE,
                          "its own name resolves to %s, which is no address "
                          "of it: correct /etc/hosts or DNS",
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
        dt_doctor_address_print(&address, text);
    else
        snprintf(text, DT_DOCTOR_ADDRESS_BYTES, "127.0.0.1");
}
