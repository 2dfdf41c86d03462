/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c - checks one node, then its connections with its peers */
#include "config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/child.h"
#include "base/file.h"
#include "base/proc.h"
#include "doctor/doctor_impl.h"
#include "launch/launch.h"

enum {
    LIFE_S = 60, /* after this time, the asker is gone */
    PAIRS_MS = 3000,
    ASK_MS = 2000,
    RESOLVE_MS = 2000,
    LINE_BYTES = 512,
};

/* Writes the first word that begins with a digit, or "-". */
static void write_version(const struct dt_doctor_notes *notes,
                          enum dt_doctor_column column, const char *text)
{
    while (*text && !(isdigit((unsigned char)*text)))
        text++;
    int len = (int)strcspn(text, " ,\n");
    if (len == 0)
        dt_doctor_cell(notes, column, "-");
    else
        dt_doctor_cell(notes, column, "%.*s", len, text);
}

static void check_software(const struct dt_doctor_notes *notes)
{
    char *const argv[] = {"srun", "--version", NULL};
    char text[128] = "";
    struct dt_map self;
    unsigned build = 0;
    if (dt_map_init(&self, "/proc/self/exe", NULL) == 0) {
        build = (unsigned)XXH3_64bits(self.data, self.bytes);
        dt_map_fini(&self);
    }
    dt_doctor_cell(notes, DT_DOCTOR_DISTTRAIN, PACKAGE_VERSION "+%08x", build);
    write_version(notes, DT_DOCTOR_PMIX, dt_launch_library());
    dt_child_ask(argv, ASK_MS, text, sizeof(text), NULL);
    write_version(notes, DT_DOCTOR_SLURM, text);
}

static rlim_t soft_limit(int resource)
{
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    getrlimit(resource, &limit);
    return limit.rlim_cur;
}

static void check_node(const struct dt_doctor_notes *notes, rlim_t nofile)
{
    const char *gpus = getenv("SLURM_GPUS_ON_NODE");
    const char *tmp = getenv("TMPDIR");
    struct dt_doctor_volume volumes[3];
    dt_doctor_check_gpus(notes, "", gpus ? atoi(gpus) : 0);
    struct dt_doctor_limits limits = {
        .rdma = dt_doctor_check_rdma(notes, "") > 0,
        .memlock = soft_limit(RLIMIT_MEMLOCK),
        .nofile = nofile,
        .core = soft_limit(RLIMIT_CORE),
        .stack = soft_limit(RLIMIT_STACK),
    };
    uint64_t memory_bytes = dt_doctor_check_memory(notes, "");
    dt_doctor_volume_read(&volumes[0], ".");
    dt_doctor_volume_read(&volumes[1], tmp && tmp[0] ? tmp : "/tmp");
    dt_doctor_volume_read(&volumes[2], "/dev/shm");
    limits.dump_bytes = dt_doctor_dumps_to_file("") ? memory_bytes : 0;
    limits.room_bytes = volumes[0].free_bytes;
    volumes[0].path = "the working directory";
    dt_doctor_check_limits(notes, &limits);
    dt_doctor_check_space(notes, volumes, 3);
    dt_doctor_check_load(notes, "", sysconf(_SC_NPROCESSORS_ONLN));
    dt_doctor_check_stale(notes, "", getuid(), getenv("SLURM_JOB_ID"));
    check_software(notes);
}

/* Checks that the name of the lowest node resolves: it will be MASTER_ADDR. */
static void check_master(const struct dt_doctor_notes *notes, const char *name,
                         const char *its_address)
{
    union dt_net_address address;
    char text[DT_NET_ADDRESS_BYTES];
    const char *why;
    if (!dt_doctor_resolve(name, RESOLVE_MS, &address, &why)) {
        dt_doctor_bad(notes, DT_DOCTOR_INTERFACE,
                      "the name %s does not resolve there (%s): correct "
                      "/etc/hosts or DNS",
                      name, why);
        return;
    }
    dt_net_print(&address, text);
    if (strcmp(text, its_address) != 0)
        dt_doctor_warn(notes, DT_DOCTOR_INTERFACE,
                       "%s resolves to %s there, and calls itself %s: correct "
                       "/etc/hosts or DNS",
                       name, text, its_address);
}

/* Reads the list of peers, up to "go". */
static int read_peers(struct dt_doctor_pairs *pairs,
                      const struct dt_doctor_notes *notes, struct dt_error *err)
{
    char line[LINE_BYTES];
    char name[LINE_BYTES];
    char address[LINE_BYTES];
    bool first = true;
    while (fgets(line, sizeof(line), stdin)) {
        int node;
        unsigned port;
        if (strcmp(line, "go\n") == 0)
            return 0;
        if (sscanf(line, "%d %s %s %u", &node, name, address, &port) != 4)
            return dt_error_set(err, EX_PROTOCOL,
                                "unexpected line \"%.64s\" on stdin; "
                                "--probe is not for people",
                                line);
        if (dt_doctor_pairs_add(pairs, node, address, port, err) < 0)
            return -1;
        if (first && node != notes->node)
            check_master(notes, name, address);
        first = false;
    }
    return dt_error_set(err, EX_PROTOCOL,
                        "stdin ended before \"go\"; --probe is not "
                        "for people");
}

int dt_doctor_probe(struct dt_error *err)
{
    const char *number = getenv("SLURM_NODEID");
    const char *name = getenv("SLURMD_NODENAME");
    struct dt_doctor_notes notes = {stdout, number ? atoi(number) : 0};
    rlim_t nofile = soft_limit(RLIMIT_NOFILE);
    const char *step_nodes = getenv("SLURM_STEP_NUM_NODES");
    char address[DT_NET_ADDRESS_BYTES] = "127.0.0.1";
    char host[256] = "localhost";
    alarm(LIFE_S);
    dt_limits_raise_files(); /* each node needs two connections */
    gethostname(host, sizeof(host) - 1);
    struct dt_doctor_pairs *pairs = dt_doctor_pairs_create(notes.node, err);
    if (!pairs)
        return -1;
    name = name ? name : host;
    if (step_nodes && strcmp(step_nodes, "1") != 0)
        dt_doctor_own_address(&notes, name, getenv("SLURM_LAUNCH_NODE_IPADDR"),
                              address);
    printf("%d hello %s %s %u\n", notes.node, name, address,
           dt_doctor_pairs_port(pairs));
    fflush(stdout);
    check_node(&notes, nofile);
    int rc = read_peers(pairs, &notes, err);
    if (rc == 0) {
        dt_doctor_pairs_probe(pairs, PAIRS_MS, &notes);
        printf("%d end\n", notes.node);
        fflush(stdout);
        dt_doctor_pairs_serve(pairs, STDIN_FILENO);
    }
    dt_doctor_pairs_destroy(pairs);
    return rc;
}
