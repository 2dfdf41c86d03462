/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - the memory of a rank, settings that need less, and what is left */
#include "config.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/said.h"
#include "base/str.h"
#include "plan/plan.h"
#include "run/run.h"
#include "run/sharing.h"
#include "sampling/sampling.h"

static size_t add_bytes(size_t a, size_t b)
{
    size_t sum;
    return __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}

size_t dt_plan_total(const struct dt_plan *plan)
{
    const size_t parts[] = {plan->weights,   plan->master,    plan->gradients,
                            plan->optimizer, plan->tiles,     plan->activations,
                            plan->batches,   plan->reference, plan->critic,
                            plan->rewards};
    size_t sum = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        sum = add_bytes(sum, parts[i]);
    return sum;
}

size_t dt_plan_rank_share(const struct dt_spec *spec, size_t left,
                          int local_size)
{
    return spec->exec.device->is_host && left != SIZE_MAX
               ? left / (size_t)local_size
               : left;
}

static size_t reference_bytes(const struct dt_spec *spec, enum dt_dtype compute)
{
    const struct dt_parallel_options options =
        dt_spec_reference_options(spec, compute);
    if (!dt_spec_needs_reference(spec) ||
        (dt_learner_adapts(&spec->learner) && !spec->learner.adapter_start))
        return 0;
    struct dt_parallel_bytes bytes =
        dt_parallel_plan(dt_spec_reference_layout(spec), spec->world, &options);
    return bytes.weights + bytes.master;
}

/* Adds the bytes of a critic. */
static void add_critic(const struct dt_spec *spec,
                       const struct dt_model_options *options,
                       const struct dt_parallel_options *parallel,
                       struct dt_plan *plan)
{
    const struct dt_learner_spec *critic = &spec->critic;
    const struct dt_model_options own = dt_spec_critic_options(spec, options);
    const bool here = spec->exec.device->is_host;
    if (!critic->layout)
        return;
    const struct dt_parallel_options sharing =
        dt_spec_critic_sharing(spec, parallel);
    struct dt_parallel_bytes held =
        dt_learner_bytes(critic, spec->world, &sharing);
    const size_t parts[] = {
        held.weights,
        held.master,
        held.gradients,
        held.moments,
        held.tiles,
        here ? held.host : 0,
        dt_model_activation_bytes(&critic->config, spec->exec.ops, &own) -
            dt_spec_critic_memory(spec, options)};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        plan->critic = add_bytes(plan->critic, parts[i]);
    if (!here)
        plan->host = add_bytes(
            plan->host,
            add_bytes(held.host, dt_model_host_bytes(&critic->config, &own)));
    plan->nvme = add_bytes(plan->nvme, held.nvme);
}

void dt_plan_resize(struct dt_model_options *options, size_t B, size_t T)
{
    const size_t was = options->B * options->T, is = B * T;
    options->patches = (options->patches * is + was - 1) / was;
    options->pictures = (options->pictures * is + was - 1) / was;
    options->B = B;
    options->T = T;
}

/* Bytes that a loader holds of a batch: three numbers a token, and pixels. */
static size_t batch_bytes(const struct dt_spec *spec,
                          const struct dt_model_options *options)
{
    size_t bytes = options->B * options->T * 3 * sizeof(int32_t);
    if (spec->images.there)
        bytes += options->patches * dt_image_row_bytes(&spec->images.processor);
    return bytes;
}

struct dt_plan dt_plan_make(const struct dt_spec *spec,
                            const struct dt_model_options *options)
{
    const struct dt_parallel_options parallel =
        dt_spec_parallel_options(spec, options->compute);
    struct dt_parallel_bytes held =
        dt_learner_bytes(&spec->learner, spec->world, &parallel);
    size_t batch = batch_bytes(spec, options);
    bool here = spec->exec.device->is_host;
    bool held_out = dt_run_holds_out(&spec->conf);
    struct dt_plan plan = {
        .weights = held.weights,
        .master = held.master,
        .gradients = held.gradients,
        .optimizer = held.moments,
        .tiles = held.tiles + (here ? held.host : 0),
        .activations =
            add_bytes(dt_model_activation_bytes(&spec->learner.config,
                                                spec->exec.ops, options),
                      dt_sampling_extra(spec, options,
                                        parallel.strategy == DT_ZERO3 ||
                                            parallel.hybrid)),
        .reference = reference_bytes(spec, options->compute),
        .rewards = spec->sampling.reward_bytes,
        .batches = here ? batch * (dt_run_prefetch(&spec->conf) + 1) *
                              (held_out ? 2 : 1)
                        : 0,
        .host = here
                    ? 0
                    : add_bytes(held.host, dt_model_host_bytes(
                                               &spec->learner.config, options)),
        .nvme = held.nvme,
        .saves = dt_plan_stage_bytes(spec, options->compute, 0),
        .copies = dt_plan_copies(spec)
                      ? dt_plan_copies_bytes(spec, options->compute)
                      : 0,
    };
    add_critic(spec, options, &parallel, &plan);
    return plan;
}

/* "1.23 GB" in one of a few static buffers. SIZE_MAX: unknown. */
static const char *format_bytes(size_t bytes)
{
    static char text[16][32];
    static unsigned turn;
    char *to = text[turn++ % 16];
    if (bytes == SIZE_MAX)
        return "an unknown amount";
    snprintf(to, sizeof(text[0]), bytes < 1000000000 ? "%.1f MB" : "%.2f GB",
             (double)bytes / (bytes < 1000000000 ? 1e6 : 1e9));
    return to;
}

/* Settings that would fit, as text, separated by "; or ". */
struct offers {
    const struct dt_spec *spec;
    size_t most; /* bytes that a rank may have */
    char text[512];
};

/* Adds `what` if a run with these options fits. */
static bool add_offer(struct offers *offers,
                      const struct dt_model_options *options, const char *what)
{
    struct dt_plan plan = dt_plan_make(offers->spec, options);
    size_t total = dt_plan_total(&plan), used = strlen(offers->text);
    if (total > offers->most)
        return false;
    snprintf(offers->text + used, sizeof(offers->text) - used, "%s%s (%s)",
             used ? "; or " : "", what, format_bytes(total));
    return true;
}

/* Offers `also` with fewer tokens in a micro-batch of pairs. */
static bool offer_tokens(struct offers *offers, struct dt_model_options options,
                         const char *also)
{
    char what[256];
    for (size_t T = options.T / 2; T >= 2 * offers->spec->T; T /= 2) {
        snprintf(what, sizeof(what), "training.micro_batch_tokens: %zu%s", T,
                 also);
        dt_plan_resize(&options, options.B, T);
        if (add_offer(offers, &options, what))
            return true;
    }
    return false;
}

/* Offers `also` with the largest batch that fits and divides the current one,
 * so that more accumulation gives the same total.
 */
static bool offer_batch(struct offers *offers, struct dt_model_options options,
                        const char *also)
{
    const struct dt_spec *spec = offers->spec;
    bool eval_given =
        dt_conf_given(&spec->conf, "training.per_device_eval_batch_size");
    char what[256], train[96], eval[64];
    if (spec->tokens > 0)
        return offer_tokens(offers, options, also);
    for (size_t B = spec->B; B > 0; B--) {
        if (spec->B % B != 0)
            continue;
        train[0] = eval[0] = '\0';
        if (B < spec->B)
            snprintf(train, sizeof(train),
                     "training.per_device_batch_size: %zu with %zu times the "
                     "accumulation steps",
                     B, spec->B / B);
        if (eval_given && spec->eval_B > B)
            snprintf(eval, sizeof(eval),
                     "%straining.per_device_eval_batch_size: %zu",
                     *train ? ", " : "", B);
        snprintf(what, sizeof(what), "%s%s%s", train, eval, also);
        struct dt_model_options smaller = options;
        dt_plan_resize(&smaller, B, options.T);
        if ((*train || *eval) && add_offer(offers, &smaller, what))
            return true;
    }
    return false;
}

/* Owner of a rank's memory, for messages. */
static const char *memory_owner(const struct dt_spec *spec)
{
    return spec->exec.device->is_host ? "node" : "GPU";
}

/* Offers the first strategy that shares more and fits. */
static bool offer_strategy(struct offers *offers,
                           const struct dt_model_options *options)
{
    static const char *const names[] = {[DT_CONF_ZERO1] = "zero1",
                                        [DT_CONF_ZERO2] = "zero2",
                                        [DT_CONF_ZERO3] = "zero3"};
    struct dt_spec other = *offers->spec;
    char what[64];
    if (other.world == 1)
        return false;
    struct offers of_other = {.spec = &other, .most = offers->most};
    int s = other.conf.distributed.strategy;
    for (s = s > DT_CONF_DDP ? s + 1 : DT_CONF_ZERO1; s <= DT_CONF_ZERO3; s++) {
        other.conf.distributed.strategy = s;
        snprintf(what, sizeof(what), "distributed.strategy: %s", names[s]);
        if (add_offer(&of_other, options, what)) {
            snprintf(offers->text, sizeof(offers->text), "%s", of_other.text);
            return true;
        }
    }
    return false;
}

/* Offers to keep the state of the optimizer in bf16, and with it sums of
 * gradients whose type is left to it, which are reduced in each micro-batch.
 */
static bool offer_bf16(struct offers *offers,
                       const struct dt_model_options *options)
{
    struct dt_spec other = *offers->spec;
    struct offers of_other = *offers;
    of_other.spec = &other;
    if (options->compute != DT_BF16 || dt_spec_state_type(&other) == DT_BF16 ||
        dt_learner_adapts(&other.learner))
        return false;
    other.conf.optimizer.state_dtype = DT_CONF_BF16;
    if (!dt_conf_given(&other.conf, "precision.grad_accum_dtype"))
        other.conf.precision.grad_accum_dtype = DT_CONF_BF16;
    if (other.conf.precision.grad_accum_dtype == DT_CONF_BF16 &&
        other.conf.distributed.reduce_each_micro_step == DT_CONF_FALSE)
        return false;
    if (!add_offer(&of_other, options, "optimizer.state_dtype: bf16"))
        return false;
    snprintf(offers->text, sizeof(offers->text), "%s", of_other.text);
    return true;
}

/* Offers to keep the state of the optimizer elsewhere. */
static bool offer_offload(struct offers *offers,
                          const struct dt_model_options *options)
{
    struct dt_spec other = *offers->spec;
    const bool host = other.exec.device->is_host;
    char what[128];
    struct offers of_other = *offers;
    of_other.spec = &other;
    if (other.conf.distributed.offload_optimizer.device != DT_CONF_OFFLOAD_NONE)
        return false;
    other.conf.distributed.offload_optimizer.device =
        host ? DT_CONF_OFFLOAD_NVME : DT_CONF_OFFLOAD_CPU;
    bool raised = other.conf.distributed.strategy <= DT_CONF_DDP;
    if (raised)
        other.conf.distributed.strategy = DT_CONF_ZERO1;
    snprintf(what, sizeof(what), "distributed.offload_optimizer.device: %s%s",
             host ? "nvme" : "cpu",
             raised ? " with distributed.strategy: zero1" : "");
    bool found = add_offer(&of_other, options, what);
    if (found)
        snprintf(offers->text, sizeof(offers->text), "%s", of_other.text);
    return found;
}

/* Smallest change first. */
static void offer_all(struct offers *offers,
                      const struct dt_model_options *options, size_t node,
                      int local_size)
{
    struct dt_model_options less = *options;
    struct dt_plan plan = dt_plan_make(offers->spec, options);
    size_t total = dt_plan_total(&plan), used;
    less.recompute = true;
    bool found = offer_strategy(offers, options);
    if (!options->recompute &&
        add_offer(offers, &less, "model.gradient_checkpointing: true"))
        found = true;
    found =
        found || offer_batch(offers, *options, "") ||
        (!options->recompute &&
         offer_batch(offers, less, " and model.gradient_checkpointing: true"));
    if (!found) {
        found = offer_bf16(offers, options);
        found = offer_offload(offers, options) || found;
    }
    used = strlen(offers->text);
    if (offers->spec->exec.device->is_host && local_size > 1 && total <= node)
        snprintf(offers->text + used, sizeof(offers->text) - used,
                 "%slaunch.ntasks_per_node: %zu", used ? "; or " : "",
                 node / total);
    else if (!found)
        snprintf(offers->text, sizeof(offers->text),
                 "a smaller model, or %ss with more memory",
                 memory_owner(offers->spec));
}

void dt_plan_offer(const struct dt_spec *spec,
                   const struct dt_model_options *options, size_t left,
                   int local_size, char *text, size_t bytes)
{
    struct offers offers = {.spec = spec,
                            .most = dt_plan_rank_share(spec, left, local_size)};
    offer_all(&offers, options, left, local_size);
    snprintf(text, bytes, "%s", offers.text);
}

/* Writes "reference 1.23 GB, critic 4.56 GB, ", without absent models. */
static void name_others(const struct dt_plan *plan, char *text, size_t bytes)
{
    const struct {
        const char *name;
        size_t bytes;
    } others[] = {{"reference", plan->reference},
                  {"critic", plan->critic},
                  {"rewards", plan->rewards}};
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (others[i].bytes > 0 && n < bytes)
            n +=
                (size_t)snprintf(text + n, bytes - n, "%s %s, ", others[i].name,
                                 format_bytes(others[i].bytes));
}

static void log_plan(const struct dt_spec *spec, const struct dt_plan *plan,
                     size_t mine)
{
    char others[128], takes[320], host[48] = "", files[48] = "";
    if (plan->host > 0)
        snprintf(host, sizeof(host), "; offloaded to host memory: %s",
                 format_bytes(plan->host));
    if (plan->nvme > 0)
        snprintf(files, sizeof(files), "; offloaded to files: %s",
                 format_bytes(plan->nvme));
    name_others(plan, others, sizeof(others));
    snprintf(takes, sizeof(takes),
             "memory of a rank: %sweights %s, gradients %s, optimizer %s, "
             "activations %s, batches %s: %s",
             others, format_bytes(add_bytes(plan->weights, plan->master)),
             format_bytes(plan->gradients),
             format_bytes(add_bytes(plan->optimizer, plan->tiles)),
             format_bytes(plan->activations), format_bytes(plan->batches),
             format_bytes(dt_plan_total(plan)));
    /* what is free differs a little with each start */
    if (!dt_said_before(takes))
        dt_log(spec->rank == 0 ? DT_LOG_INFO : DT_LOG_DEBUG, "plan",
               "%s of %s%s%s", takes, format_bytes(mine), host, files);
}

/* Checks that offloaded state fits into the memory of the node. */
static int check_host(const struct dt_spec *spec, size_t host, int local_size,
                      struct dt_error *err)
{
    size_t left = host > 0 ? dt_cpu.available_bytes() : 0;
    if (host <= left / (size_t)local_size)
        return 0;
    return dt_error_set(
        err, EX_CONFIG,
        "%s: what is offloaded needs %s of host memory a rank, but the node "
        "has "
        "%s left for %d rank%s: set distributed.offload_optimizer.device: nvme "
        "or a lower ratio, or model.gradient_checkpointing: true",
        spec->conf.file, format_bytes(host), format_bytes(left), local_size,
        dt_str_plural((uint64_t)local_size));
}

int dt_plan_check(const struct dt_spec *spec,
                  const struct dt_model_options *options, size_t left,
                  int local_size, struct dt_error *err)
{
    struct dt_plan plan = dt_plan_make(spec, options);
    size_t total = dt_plan_total(&plan);
    bool shared = spec->exec.device->is_host; /* by the ranks of the node */
    size_t mine = dt_plan_rank_share(spec, left, local_size);
    char offers[512], others[128];
    name_others(&plan, others, sizeof(others));
    log_plan(spec, &plan, mine);
    if (total <= mine)
        return check_host(spec, plan.host, local_size, err);
    dt_plan_offer(spec, options, left, local_size, offers, sizeof(offers));
    char ranks[32] = "";
    if (shared)
        snprintf(ranks, sizeof(ranks), " for %d rank%s", local_size,
                 dt_str_plural((uint64_t)local_size));
    return dt_error_set(err, EX_CONFIG,
                        "%s: this run needs %s of memory a rank (%sweights %s, "
                        "gradients %s, optimizer %s, activations %s), but the "
                        "%s has %s left%s; what would fit: %s",
                        spec->conf.file, format_bytes(total), others,
                        format_bytes(add_bytes(plan.weights, plan.master)),
                        format_bytes(plan.gradients),
                        format_bytes(add_bytes(plan.optimizer, plan.tiles)),
                        format_bytes(plan.activations), memory_owner(spec),
                        format_bytes(left), ranks, offers);
}

size_t dt_plan_spare(const struct dt_spec *spec,
                     const struct dt_model_options *options, size_t left,
                     int local_size)
{
    if (!spec->exec.device->is_host)
        return dt_cpu.available_bytes() / (size_t)local_size;
    const struct dt_plan plan = dt_plan_make(spec, options);
    const size_t used = dt_plan_total(&plan);
    const size_t mine = dt_plan_rank_share(spec, left, local_size);
    return mine > used ? mine - used : 0;
}

/* --- spending what remains --- */

/* Takes the options if the run then fits into `left` bytes. */
static void take_if_it_fits(const struct dt_spec *spec,
                            struct dt_model_options *options,
                            const struct dt_model_options *more, size_t left)
{
    struct dt_plan plan = dt_plan_make(spec, more);
    if (dt_plan_total(&plan) <= left)
        *options = *more;
}

void dt_plan_spend(const struct dt_spec *spec, struct dt_model_options *options,
                   size_t left)
{
    struct dt_model_options more;
    options->save_activations = options->whole_head = false;
    if (spec->exec.device->is_host || spec->conf.run.deterministic)
        return;
    more = *options;
    more.save_activations = !options->recompute;
    take_if_it_fits(spec, options, &more, left);
    more = *options;
    more.whole_head = true;
    take_if_it_fits(spec, options, &more, left);
}

/* --- the memory of all ranks --- */

/* Bytes that NCCL takes when messages are first sent to all peers, which is how
 * gradients in bf16 travel: a channel to each of 7 peers and more.
 */
static const size_t NCCL_MESSAGES = (size_t)3 << 29;

static bool has_gpu_peers(const struct dt_spec *spec)
{
    return spec->world > 1 && !spec->exec.device->is_host;
}

int dt_plan_least_memory(const struct dt_spec *spec, struct dt_comm *comm,
                         size_t *left, struct dt_error *err)
{
    const struct dt_device *device = spec->exec.device;
    double missing;
    if (has_gpu_peers(spec) && dt_comm_barrier(comm, err) < 0)
        return -1;
    *left = device->available_bytes();
    if (!has_gpu_peers(spec))
        return 0;
    missing = -(double)*left;
    if (dt_comm_reduce_scalars(comm, &missing, 1, DT_MAX, err) < 0)
        return -1;
    *left = missing <= -0x1p63 ? SIZE_MAX : (size_t)-missing;
    return 0;
}

size_t dt_plan_plannable(const struct dt_spec *spec, size_t left)
{
    if (!has_gpu_peers(spec) || !spec->conf.precision.reduce_bf16)
        return left;
    return left > NCCL_MESSAGES ? left - NCCL_MESSAGES : 0;
}
