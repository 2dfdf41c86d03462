/* SPDX-License-Identifier: Apache-2.0 */
/* tend.c - a keeper starts its worker, tells it its place, and reports its end
 */
#include "config.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "contract/variables.h"
#include "keeper/agree.h"
#include "keeper/errand.h"
#include "keeper/keeper_impl.h"
#include "keeper/reach.h"
#include "keeper/relay.h"
#include "keeper/roster.h"
#include "keeper/verdict.h"
#include "keeper/worker.h"

enum { STOP_MS = 2000 /* for a worker to end by itself, once it is to end */ };

void dt_keeper_tell_down(struct dt_keeper *k)
{
    k->down.free = dt_worker_find_port(k->options);
    dt_keeper_tell(k, DT_WIRE_DOWN, &k->down, sizeof(k->down), k->note,
                   strlen(k->note));
}

/* The worker has ended, or could not be started. A signal that has ended it may
 * have reached this process since the loop last looked.
 */
static void note_down(struct dt_keeper *k, int status)
{
    const bool stopped = k->kill_at > 0 && WIFSIGNALED(status);
    dt_keeper_read_signals(k);
    k->down = (struct dt_wire_down){
        .step = dt_board_step(k->worker.board),
        .status = status,
        .asked = k->asked || (!stopped && dt_ended_as_asked(status)),
        .stopped = stopped,
        .starved = !stopped && dt_worker_starved(&k->worker, status),
    };
    k->is_down = true;
    if (!stopped)
        k->end = status;
    dt_wire_close(&k->worker.wire);
    dt_relay_finish(&k->relay, k->roster.posts[k->id].rank, k->host);
}

void dt_keeper_report_down(struct dt_keeper *k, int status)
{
    note_down(k, status);
    dt_keeper_tell_down(k);
}

static int set_if_there(void *context, const char *name, const char *value,
                        bool fixed, struct dt_error *err)
{
    (void)context;
    (void)fixed;
    (void)err;
    if (getenv(name))
        setenv(name, value, 1);
    return 0;
}

/* Tells the program its place, where this is another one than that of its task,
 * in the variables that the plugin has set.
 */
static void set_place(const struct dt_keeper *k, const struct dt_place *place)
{
    const struct dt_roster *roster = &k->roster;
    const int first = dt_roster_find(roster, 0);
    int jax_port = 0;
    char epoch[DT_EPOCH_STEP_BYTES + 48];
    dt_epoch_step(k->options->secret, epoch);
    snprintf(epoch + strlen(epoch), 48, " %u %d %d", roster->epoch, place->rank,
             place->size);
    setenv(DT_EPOCH_ENV, epoch, 1);
    if (roster->size == roster->count && roster->epoch == 1)
        return;
    dt_keeper_number("JAX_COORDINATOR_PORT", &jax_port);
    const struct dt_task_facts facts = {
        .rank = (uint32_t)place->rank,
        .world_size = (uint32_t)place->size,
        .local_rank = (uint32_t)place->local_rank,
        .local_size = (uint32_t)place->local_size,
        .node_rank = (uint32_t)place->node_rank,
        .nodes = (uint32_t)place->nodes,
        .jax_port = jax_port > 0 ? (unsigned)jax_port : 0,
        .master_addr = first > 0 ? roster->rows[first].address : NULL,
    };
    dt_variables_each(&facts, NULL, set_if_there, NULL, NULL);
}

/* Sends its world to a worker of ours: who it is, and the hosts of all ranks,
 * one after another.
 */
static int send_world(struct dt_keeper *k, const struct dt_place *place)
{
    const struct dt_roster *roster = &k->roster;
    const struct dt_wire_world world = {
        .rank = place->rank,
        .size = place->size,
        .local_rank = place->local_rank,
        .local_size = place->local_size,
        .restarts = roster->past.restarts,
    };
    int *ids = calloc((size_t)roster->count, sizeof(*ids));
    char *hosts = calloc((size_t)roster->size, DT_KEEPER_HOST_BYTES);
    size_t used = 0;
    for (int i = 0; ids && i < roster->count; i++)
        if (roster->posts[i].rank >= 0)
            ids[roster->posts[i].rank] = i;
    for (int r = 0; ids && hosts && r < roster->size; r++)
        used += 1 + (size_t)sprintf(hosts + used, "%s", roster->hosts[ids[r]]);
    if (used > 0)
        dt_wire_send(&k->worker.wire, DT_WIRE_WORLD, roster->life, &world,
                     sizeof(world), hosts, used);
    free(ids);
    free(hosts);
    return used > 0 ? 0 : -1;
}

/* Starts the worker of the next life. */
static int try_worker(struct dt_keeper *k, unsigned port, struct dt_error *err)
{
    const struct dt_keeper_options *options = k->options;
    const struct dt_roster *roster = &k->roster;
    struct dt_place place;
    char *const *argv =
        options->argv_of
            ? options->argv_of(options->context, roster->first, roster->size)
            : options->argv;
    if (!argv)
        return dt_error_set(err, EX_CONFIG, "keeper: no program for %d ranks",
                            roster->size);
    dt_roster_place(roster, k->id, &place);
    set_place(k, &place);
    if (dt_worker_start(&k->worker, options, argv, roster->past.restarts, port,
                        err) < 0)
        return -1;
    if (!options->trains)
        return 0;
    if (send_world(k, &place) < 0)
        return dt_error_set(err, EX_OSERR, "keeper: no memory");
    dt_wire_send(&k->worker.wire, DT_WIRE_LOSSES, roster->life, roster->losses,
                 roster->loss_count * sizeof(*roster->losses), NULL, 0);
    return 0;
}

void dt_keeper_start_worker(struct dt_keeper *k, unsigned port)
{
    struct dt_error err;
    k->end = EX_UNAVAILABLE << 8;
    if (k->asked) { /* while no worker was there to hear it */
        dt_keeper_report_down(k, SIGTERM);
    } else if (try_worker(k, port, &err) < 0) {
        fprintf(stderr, "disttrain: %s\n", err.text);
        if (k->worker.pid != 0)
            kill(k->worker.pid, SIGKILL);
        else
            dt_keeper_report_down(k, err.status << 8);
    }
}

/* Ends the worker, which may report its own error first. A program that is not
 * ours is asked, as by Slurm.
 */
void dt_keeper_stop_worker(struct dt_keeper *k)
{
    if (k->worker.pid == 0 || k->kill_at > 0)
        return;
    k->kill_at = dt_clock_now() + STOP_MS / 1e3;
    if (!k->options->trains)
        kill(k->worker.pid, SIGTERM);
}

void dt_keeper_serve_worker(struct dt_keeper *k)
{
    struct dt_wire_message message;
    int rc = dt_wire_receive(&k->worker.wire), found;
    while ((found = dt_wire_next(&k->worker.wire, &message)) > 0)
        if (message.type == DT_WIRE_FENCE || message.type == DT_WIRE_WHO)
            dt_keeper_tell(k, message.type, message.body, message.bytes, NULL,
                           0);
        else if (message.type == DT_WIRE_NOTE)
            snprintf(k->note, sizeof(k->note), "%.*s", (int)message.bytes,
                     (const char *)message.body);
    if (rc < 0 || found < 0) /* its end comes as a signal */
        dt_wire_close(&k->worker.wire);
}

pid_t dt_keeper_errand(const struct dt_keeper *k)
{
    return k->leader ? dt_errand_pid(&k->leader->shrink) : 0;
}

bool dt_keeper_end_worker(struct dt_keeper *k)
{
    const double until = dt_clock_now() + 2 * k->options->outage_s;
    int status;
    k->kill_at = dt_clock_now(); /* its end explains nothing */
    while (k->worker.pid != 0 && dt_clock_now() < until) {
        kill(k->worker.pid, SIGKILL);
        dt_clock_sleep(0.002);
        if (dt_worker_ended(&k->worker, dt_keeper_errand(k), &status))
            note_down(k, status);
    }
    return k->worker.pid == 0;
}
