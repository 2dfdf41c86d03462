/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_spank.c - any bytes as what the plugin reads: an answer or an error
 *
 * The same bytes are a host list, reserved ports, an argument of
 * plugstack.conf, an answer of the runtime, and the environment of a task, one
 * NAME=value a line.
 */
#include "config.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "contract/contract.h"
#include "spank/hostlist.h"
#include "spank/siteconf.h"
#include "spank/srun/srun_impl.h"
#include "spank/task/task_impl.h"
#include "spank/task/task_step.h"
#include "tests/unit/spank/spank_stub.h"

enum {
    ENTRIES_MAX = 32,
};

/* No names are looked up. */
static char *no_net[] = {"off=net"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
    if (!condition)
        abort();
}

static void try_hostlist(const char *text)
{
    static const uint32_t numbers[] = {0, 1, 1000, UINT32_MAX};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        struct dt_error err = {0};
        char host[16];
        memset(host, 'x', sizeof(host));
        if (dtspank_hostlist_nth(text, numbers[i], host, sizeof(host), &err))
            must(err.text[0] != '\0');
        else
            must(strnlen(host, sizeof(host)) < sizeof(host) &&
                 !strpbrk(host, "[],"));
    }
    char *hosts[8] = {NULL};
    if (dtspank_hostlist_expand(text, 8, hosts) == 0)
        must(hosts[7] != NULL);
    for (int i = 0; i < 8; i++)
        free(hosts[i]);
}

static void try_ports(const char *text)
{
    struct dtspank_ports ports = {0};
    dtspank_port_reserve(text, 8, &ports);
    must(ports.master <= 65535 && ports.jax <= 65535 && ports.tf <= 65535 - 7);
}

static void try_siteconf(char *text)
{
    struct dtspank_siteconf conf;
    struct dt_error err = {0};
    const char *entry;
    int at = 0;
    if (dtspank_siteconf_parse(1, &text, &conf, &err) != 0)
        must(err.text[0] != '\0');
    must(conf.runtime[0] == '/' && conf.port_first >= 1024 &&
         conf.port_first <= conf.port_last && conf.port_last <= 65535);
    while ((entry = dtspank_siteconf_variable(&conf, "env", "gpu", &at)))
        must(strchr(entry, '=') != NULL && entry[0] != '=');
    if (dtspank_siteconf_use_runtime(&conf, text, &err) != 0)
        must(err.text[0] != '\0');
}

/* Takes text over. */
static void try_contract(char *text)
{
    struct dtspank_contract contract;
    struct dt_error err = {0};
    if (dtspank_contract_parse(text, &contract, &err) != 0)
        must(err.text[0] != '\0');
    else
        must(contract.config[0] == '/');
    dtspank_contract_fini(&contract);
}

static void try_task(char *text)
{
    char *rest = text;
    stub_reset();
    spank_setenv(NULL, DT_ENV_CONFIG, "/c.yaml", 1);
    spank_setenv(NULL, "SLURM_PROCID", "0", 1);
    for (int i = 0; i < ENTRIES_MAX; i++) {
        char *name = strsep(&rest, "\n");
        char *value = name ? strchr(name, '=') : NULL;
        if (!value)
            break;
        *value = '\0';
        spank_setenv(NULL, name, value + 1, 1);
    }
    must(dtspank_step_init(NULL, 1, no_net) == 0);
    if (dtspank_step_task_init(NULL) != 0) /* one line, at the end */
        must(strchr(stub.said, '\n') != NULL);
    must(strpbrk(stub.said, "\r\x1b") == NULL);
    stub_reset();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    must(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    try_hostlist(text);
    try_ports(text);
    try_siteconf(text);
    try_contract(strdup(text));
    try_task(text);
    free(text);
    return 0;
}
