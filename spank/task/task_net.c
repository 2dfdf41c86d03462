/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task_net.c - finds the network interface by which the kernel routes to a
 * host, computes the ports of a step, and finds out who holds a taken one
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pwd.h>
#include <resolv.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/net.h"
#include "spank/task/task_impl.h"

static int cannot_find(const char *host, const char *why, struct dt_error *err)
{
    return dt_error_set(err, EX_NOHOST,
                        "this node cannot find MASTER_ADDR: %.64s: %s", host,
                        why);
}

/* The address from which this node reaches host: of several the one with the
 * largest reach. A name server that is silent must not hold up the task.
 */
static int source_towards(const char *host, union dt_net_address *source,
                          struct dt_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM,
                             .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    union dt_net_address from;
    int status = EHOSTUNREACH;
    bool found = false;
    if (res_init() == 0) {
        _res.retrans = 1; /* seconds */
        _res.retry = 1;
    }
    int rc = getaddrinfo(host, "9", &hints, &list);
    if (rc != 0)
        return cannot_find(
            host, rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc), err);
    for (struct addrinfo *to = list; to; to = to->ai_next) {
        status = dt_net_source(to->ai_addr, to->ai_addrlen, &from);
        if (status != 0 ||
            (found && dt_net_reach(&from.any) <= dt_net_reach(&source->any)))
            continue;
        *source = from;
        found = true;
    }
    freeaddrinfo(list);
    return found ? 0 : cannot_find(host, strerror(status), err);
}

int dtspank_net_owner(const struct ifaddrs *list,
                      const union dt_net_address *source,
                      char name[IF_NAMESIZE], struct dt_error *err)
{
    const struct ifaddrs *owner = list, *first = list;
    union dt_net_address other = {0};
    char text[DT_NET_ADDRESS_BYTES], taken[DT_NET_ADDRESS_BYTES];
    name[0] = '\0';
    while (owner && !dt_net_same_host(source, owner->ifa_addr))
        owner = owner->ifa_next;
    if (!owner || dt_net_reach(&source->any) == DT_NET_HOST)
        return 0;
    while (strcmp(first->ifa_name, owner->ifa_name) != 0 || !first->ifa_addr ||
           (first->ifa_addr->sa_family != AF_INET &&
            first->ifa_addr->sa_family != AF_INET6))
        first = first->ifa_next;
    if (dt_net_reach(first->ifa_addr) >= dt_net_reach(&source->any)) {
        strncpy(name, owner->ifa_name, IF_NAMESIZE - 1);
        name[IF_NAMESIZE - 1] = '\0';
        return 0;
    }
    dt_net_print(source, text);
    if (first->ifa_addr->sa_family == AF_INET)
        memcpy(&other.v4, first->ifa_addr, sizeof(other.v4));
    else
        memcpy(&other.v6, first->ifa_addr, sizeof(other.v6));
    dt_net_print(&other, taken);
    return dt_error_set(err, EX_NOHOST,
                        "this node has the address %s on %s, where %s comes "
                        "first, and libraries would use that",
                        text, owner->ifa_name, taken);
}

static int interface_towards(const char *host, char name[IF_NAMESIZE],
                             struct dt_error *err)
{
    union dt_net_address source;
    struct ifaddrs *list = NULL;
    if (source_towards(host, &source, err) != 0)
        return -1;
    if (getifaddrs(&list) != 0)
        return dt_error_set(err, EX_OSERR, "getifaddrs: %s", strerror(errno));
    int rc = dtspank_net_owner(list, &source, name, err);
    freeifaddrs(list);
    return rc;
}

int dtspank_net_interface(const char *master, const char *other,
                          char name[IF_NAMESIZE], struct dt_error *err)
{
    if (interface_towards(master, name, err) != 0)
        return -1;
    if (name[0] == '\0' && other && interface_towards(other, name, err) != 0)
        return -1;
    if (name[0] == '\0')
        return cannot_find(master, "the name resolves to this node itself",
                           err);
    return 0;
}

bool dtspank_net_has_rdma(const char *path)
{
    bool found = false;
    DIR *dir = opendir(path);
    for (struct dirent *entry; !found && dir && (entry = readdir(dir));)
        found = entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return found;
}

enum {
    SHARED_MIN = 64,   /* a range of fewer ports is not divided */
    TF_WIDTH_MIN = 16, /* the same for most steps, so that their blocks do not
                        * overlap
                        */
    TCP_TIME_WAIT = 6, /* states in /proc/net/tcp */
    TCP_LISTEN = 10,
};

/* Returns the slot of the step in a range of that size: next to the previous
 * step of its job, and far from the jobs before it, which the multiplication by
 * 2^64 over the golden ratio ensures.
 */
static unsigned step_slot(uint32_t job, uint32_t step, unsigned size)
{
    uint64_t hash = job * UINT64_C(0x9E3779B97F4A7C15) >> 32;
    return (unsigned)(((hash * size >> 32) + step) % size);
}

void dtspank_port_choose(unsigned first, unsigned last, uint32_t job,
                         uint32_t step, uint32_t tasks,
                         struct dtspank_ports *ports)
{
    unsigned size = last - first + 1;
    unsigned eighth = size / 8;
    unsigned width = tasks > TF_WIDTH_MIN ? tasks : TF_WIDTH_MIN;
    unsigned tf_blocks = 2 * eighth / width;
    *ports =
        (struct dtspank_ports){.master = first + step_slot(job, step, size)};
    if (size < SHARED_MIN)
        return;
    ports->master = first + step_slot(job, step, 3 * eighth);
    ports->jax = first + 3 * eighth + step_slot(job, step, 2 * eighth);
    ports->ras = first + 5 * eighth + step_slot(job, step, eighth);
    if (tf_blocks > 0)
        ports->tf =
            first + 6 * eighth + width * step_slot(job, step, tf_blocks);
}

/* Returns the n-th port of "12000-12004,12009"; 0 if there is none. */
static unsigned nth_port(const char *list, uint32_t n)
{
    unsigned long first;
    unsigned long last;
    for (;; list++) {
        char *end;
        first = last = strtoul(list, &end, 10);
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        if (first == 0 || last < first || last > UINT16_MAX)
            return 0;
        if (n <= last - first)
            return (unsigned)first + n;
        n -= (uint32_t)(last - first + 1);
        list = end;
        if (*list != ',')
            return 0;
    }
}

/* JAX and TensorFlow are not used in one program, so they may share ports. */
void dtspank_port_reserve(const char *reserved, uint32_t tasks,
                          struct dtspank_ports *ports)
{
    unsigned second = nth_port(reserved, 1);
    if (nth_port(reserved, 0) > 0)
        ports->master = nth_port(reserved, 0);
    if (second > 0)
        ports->jax = second;
    if (second > 0 && nth_port(reserved, tasks) == second + tasks - 1)
        ports->tf = second;
}

/* Returns 0 or an errno. */
static int try_bind(int family, unsigned port)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                              .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in v4 = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port)};
    int yes = 1;
    int no = 0;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
    int rc = family == AF_INET6 ? bind(fd, (struct sockaddr *)&v6, sizeof(v6))
                                : bind(fd, (struct sockaddr *)&v4, sizeof(v4));
    int status = rc == 0 ? 0 : errno;
    close(fd);
    return status;
}

struct holder {
    unsigned long inode; /* of the socket; 0: not found */
    unsigned uid;
};

/* Looks for the socket that has port in /proc/net/tcp or tcp6, and prefers one
 * that listens to one that is connected.
 */
static void find_socket(const char *path, unsigned port, struct holder *holder)
{
    char line[512];
    FILE *table = fopen(path, "re");
    while (table && fgets(line, sizeof(line), table)) {
        unsigned local;
        unsigned state;
        struct holder found;
        if (sscanf(line,
                   " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*x:%*x %*x:%*x %*x "
                   "%u %*d %lu",
                   &local, &state, &found.uid, &found.inode) == 4 &&
            local == port && state != TCP_TIME_WAIT &&
            (holder->inode == 0 || state == TCP_LISTEN))
            *holder = found;
    }
    if (table)
        fclose(table);
}

static bool has_socket(const char *pid, unsigned long inode)
{
    char wanted[64];
    char path[64];
    bool found = false;
    snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
    snprintf(path, sizeof(path), "/proc/%.16s/fd", pid);
    DIR *dir = opendir(path);
    for (struct dirent *entry; !found && dir && (entry = readdir(dir));) {
        char target[64];
        ssize_t n =
            readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = '\0';
        found = strcmp(target, wanted) == 0;
    }
    if (dir)
        closedir(dir);
    return found;
}

/* Writes " by process 4711 (python3)" if this user may see the process. */
static bool name_process(unsigned long inode, char *text, size_t size)
{
    bool found = false;
    DIR *dir = opendir("/proc");
    for (struct dirent *entry; !found && dir && (entry = readdir(dir));) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' ||
            !has_socket(entry->d_name, inode))
            continue;
        char path[64];
        char command[32] = "?";
        snprintf(path, sizeof(path), "/proc/%.16s/comm", entry->d_name);
        FILE *comm = fopen(path, "re");
        if (comm && fgets(command, sizeof(command), comm))
            command[strcspn(command, "\n")] = '\0';
        if (comm)
            fclose(comm);
        snprintf(text, size, " by process %.16s (%s)", entry->d_name, command);
        found = true;
    }
    if (dir)
        closedir(dir);
    return found;
}

static void name_holder(unsigned port, char *text, size_t size)
{
    struct holder holder = {0};
    find_socket("/proc/net/tcp", port, &holder);
    find_socket("/proc/net/tcp6", port, &holder);
    if (holder.inode == 0 || name_process(holder.inode, text, size))
        return;
    struct passwd *user = getpwuid(holder.uid);
    snprintf(text, size, " by a process of user %.32s (uid %u)",
             user ? user->pw_name : "?", holder.uid);
}

/* Returns 0 or an errno. */
static int try_listen(unsigned port)
{
    int status = try_bind(AF_INET6, port);
    return status == 0 ? 0 : try_bind(AF_INET, port);
}

bool dtspank_port_is_free(unsigned port)
{
    return port == 0 || try_listen(port) == 0;
}

int dtspank_port_test(const char *variable, unsigned port, struct dt_error *err)
{
    char holder[128] = "";
    int status = try_listen(port);
    if (status == 0)
        return 0;
    if (status != EADDRINUSE)
        return dt_error_set(err, EX_OSERR, "%s: cannot listen on port %u: %s",
                            variable, port, strerror(status));
    name_holder(port, holder, sizeof(holder));
    bool is_port = strstr(variable, "_PORT") != NULL; /* and not a whole list */
    return dt_error_set(err, EX_UNAVAILABLE,
                        "%s: port %u is taken%s; end that program, start the "
                        "step again for another port, or set %s %s",
                        variable, port, holder, variable,
                        is_port ? "to a free one" : "yourself");
}
