/* SPDX-License-Identifier: Apache-2.0 */
/* spec.c - numbers that follow from the specification of a run */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "batch/loader.h"
#include "run/data.h"
#include "run/numerics.h"
#include "run/sample_pictures.h"
#include "run/spec.h"

/* Tokens: tiles of attention. Joined rows have steps of as many tiles as are in
 * such a part of the longest one: fewer than twice as many lengths.
 */
enum { DEVICE_LENGTH_STEP = 128, DEVICE_LENGTHS = 32 };

void dt_spec_fini(struct dt_spec *spec)
{
    dt_learner_spec_fini(&spec->critic);
    dt_learner_spec_fini(&spec->learner);
    dt_nodes_fini(&spec->nodes);
    dt_run_images_fini(&spec->images);
    free(spec->sampling.reward_rooms);
}

/* Each new length costs a GPU graph and autotuning, so there should be few. */
size_t dt_spec_length_step(const struct dt_spec *spec)
{
    const struct dt_conf *conf = &spec->conf;
    const size_t tiles = spec->tokens / DEVICE_LENGTHS / DEVICE_LENGTH_STEP;
    bool given = dt_conf_given(conf, "data.pad_to_multiple_of");
    return given || spec->exec.device->is_host
               ? (size_t)conf->data.pad_to_multiple_of
               : (tiles > 1 ? tiles : 1) * DEVICE_LENGTH_STEP;
}

double dt_spec_samples_of_step(const struct dt_spec *spec)
{
    return spec->algo->advantages
               ? (double)spec->sampling.groups / (double)spec->sampling.uses
               : (double)(spec->B * spec->A * (size_t)spec->world);
}

long dt_spec_count_steps(const struct dt_spec *spec, uint64_t samples)
{
    const struct dt_conf *conf = &spec->conf;
    double all = conf->training.epochs * (double)samples;
    if (spec->algo->critic_loss && conf->ppo.total_episodes > 0)
        all = (double)conf->ppo.total_episodes;
    return conf->training.max_steps > 0
               ? conf->training.max_steps
               : (long)ceil(all / dt_spec_samples_of_step(spec));
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The most pictures of a batch of these rows; NULL: none. */
static int most_of(const struct dt_spec *spec, const struct dt_rows *rows,
                   bool train, struct dt_loader_most *most,
                   struct dt_error *err)
{
    const struct dt_loader_options options = {
        .B = train ? spec->B : spec->eval_B,
        .tokens = spec->tokens,
        .accumulation = train ? spec->A : 1,
        .world = spec->world,
        .repeat = train,
    };
    *most = (struct dt_loader_most){0};
    return rows ? dt_loader_most(rows, &options, most, err) : 0;
}

/* Those of prompts. Micro-batches are of training alone. */
static int take_prompts(struct dt_spec *spec, const struct dt_run_data *data,
                        struct dt_model_options *options, struct dt_error *err)
{
    struct dt_sampling_spec *s = &spec->sampling;
    const struct dt_sample_room room = {s->step_rows, s->groups, spec->tokens};
    const double answers = (double)spec->conf.rollout.max_completion_length *
                           (double)dt_prompts_stats(data->prompts).count;
    struct dt_sample_most train, held_out = {0};
    if (dt_sample_pictures_most(data->prompts, &room, &train, err) < 0 ||
        (data->held_out &&
         dt_sample_pictures_most(data->held_out, &room, &held_out, err) < 0))
        return -1;
    s->patches = max_size(train.prompt_patches, held_out.prompt_patches);
    s->pictures = max_size(train.prompt_pictures, held_out.prompt_pictures);
    options->patches = train.patches;
    options->pictures = train.pictures;
    options->places = train.places;
    spec->images.patches = train.all_patches / (train.tokens + answers);
    spec->images.pictures = train.all_pictures / (train.tokens + answers);
    return 0;
}

/* Those of rows. */
static int take_rows(struct dt_spec *spec, const struct dt_run_data *data,
                     struct dt_model_options *options, struct dt_error *err)
{
    struct dt_loader_most train, held_out;
    const struct dt_rows_stats stats = dt_rows_stats(data->train);
    if (most_of(spec, data->train, true, &train, err) < 0 ||
        most_of(spec, data->eval, false, &held_out, err) < 0)
        return -1;
    options->patches = max_size(train.patches, held_out.patches);
    options->pictures = max_size(train.pictures, held_out.pictures);
    options->places = dt_rows_pair(data->train, 0) ? DT_SIDES : 1;
    spec->images.patches = (double)stats.patches / (double)stats.tokens;
    spec->images.pictures = (double)stats.pictures / (double)stats.tokens;
    return 0;
}

int dt_spec_take_pictures(struct dt_spec *spec, const struct dt_run_data *data,
                          struct dt_model_options *options,
                          struct dt_error *err)
{
    if (!spec->images.there)
        return 0;
    if ((data->prompts ? take_prompts : take_rows)(spec, data, options, err) <
        0)
        return -1;
    if (options->pictures == 0) { /* data of text alone: no memory is empty */
        const size_t merge = spec->learner.config.vision->merge;
        options->patches = merge * merge;
        options->pictures = 1;
    }
    spec->images.counted = true;
    return 0;
}

/* --- nodes --- */

/* Adds all ranks on the host of `first` to the order, as one node. */
static void nodes_add(struct dt_nodes *nodes, const struct dt_comm *world,
                      int first, bool *seen, int *at)
{
    const char *host = dt_comm_host(world, first);
    int count = 0;
    for (int r = first; r < dt_comm_size(world); r++)
        if (!seen[r] && !strcmp(dt_comm_host(world, r), host)) {
            seen[r] = true;
            nodes->order[(*at)++] = r;
            count++;
        }
    if (nodes->count == 0 || count < nodes->least) {
        nodes->least = count;
        nodes->rank_of_least = first;
    }
    if (nodes->count == 0 || count > nodes->most) {
        nodes->most = count;
        nodes->rank_of_most = first;
    }
    nodes->count++;
}

int dt_nodes_find(struct dt_nodes *nodes, const struct dt_comm *world,
                  struct dt_error *err)
{
    int size = dt_comm_size(world), at = 0;
    bool *seen = calloc((size_t)size, sizeof(*seen));
    *nodes =
        (struct dt_nodes){.order = calloc((size_t)size, sizeof(*nodes->order))};
    if (!seen || !nodes->order) {
        free(seen);
        return dt_error_set(err, EX_OSERR, "out of memory");
    }
    for (int r = 0; r < size; r++)
        if (!seen[r])
            nodes_add(nodes, world, r, seen, &at);
    free(seen);
    return 0;
}

void dt_nodes_fini(struct dt_nodes *nodes)
{
    free(nodes->order);
}

bool dt_nodes_are_even(const struct dt_nodes *nodes)
{
    return nodes->count > 1 && nodes->least == nodes->most && nodes->most > 1;
}

/* --- floating-point operations --- */

/* Longer names before those that they begin with. */
static const struct dt_peak peaks[] = {
    {"NVIDIA A100", 312e12},       {"NVIDIA H100 NVL", 835.5e12},
    {"NVIDIA H100 PCIe", 756e12},  {"NVIDIA H100 80GB HBM3", 989.4e12},
    {"NVIDIA H200 NVL", 835.5e12}, {"NVIDIA H200", 989.4e12},
    {"NVIDIA L40S", 362e12},
};

const struct dt_peak *dt_peak_of(const char *device, enum dt_dtype compute)
{
    if ((compute != DT_BF16 && compute != DT_F16) || strstr(device, "MIG"))
        return NULL;
    for (size_t i = 0; i < sizeof(peaks) / sizeof(*peaks); i++)
        if (strncmp(device, peaks[i].name, strlen(peaks[i].name)) == 0)
            return &peaks[i];
    return NULL;
}

/* Elements that are looked up and not multiplied: positions, and the token
 * embedding unless it is the head, too.
 */
static double looked_up(const struct dt_model_config *config)
{
    double rows =
        dt_model_learns_positions(config) ? (double)config->n_positions : 0;
    if (!dt_model_tied(config))
        rows += (double)config->vocab_size;
    return rows * (double)config->n_embd;
}

/* Scores and their product with the values, both ways, of a row of T. */
static double attention(const struct dt_model_config *config, size_t T)
{
    double reach = 0;
    for (size_t u = 1; u <= config->n_layer; u++) {
        const size_t window = dt_model_window(config, u);
        reach += (double)(window > 0 && window < T ? window : T);
    }
    return 12 * reach * (double)(config->n_head * config->head_size);
}

/* Rows of unit u for a token of the text: a tower has patches, and a projector
 * features.
 */
static double rows_of(const struct dt_spec *spec, size_t u)
{
    const struct dt_model_config *config = &spec->learner.config;
    return u >= dt_model_first_unit(config)
               ? 1
               : spec->images.patches * dt_model_rows_of_patch(config, u);
}

/* Parameters of unit u, each as often as it has rows for a token. */
static double unit_params(const struct dt_spec *spec,
                          const struct dt_layout *layout, size_t u)
{
    const struct dt_unit *unit = &layout->units[u];
    double sum = 0;
    for (size_t i = 0; i < unit->param_count; i++)
        sum += (double)layout->params[unit->first_param + i].count;
    return sum * rows_of(spec, u);
}

/* Those of trained weights. */
static double trained_flops(const struct dt_spec *spec)
{
    const struct dt_layout *layout = spec->learner.layout;
    double flops = 0;
    for (size_t u = 0; u < layout->unit_count; u++)
        flops += 6 * unit_params(spec, layout, u);
    return flops;
}

/* Those of frozen weights. An embedding is either looked up or the head. */
static double frozen_flops(const struct dt_spec *spec)
{
    const struct dt_layout *frozen = spec->learner.frozen;
    const size_t first = dt_model_first_unit(&spec->learner.config);
    double flops = 0;
    for (size_t u = 0; frozen && u < frozen->unit_count; u++) {
        const bool looks_up =
            u >= first && frozen->units[u].kind == DT_UNIT_EMBEDDING;
        const bool goes_back =
            u >= dt_learner_lowest(&spec->learner) || looks_up;
        flops += (goes_back ? 4 : 2) * unit_params(spec, frozen, u);
    }
    return flops;
}

/* Whether the token embedding is frozen. */
static bool freezes_embedding(const struct dt_learner_spec *learner)
{
    const struct dt_layout *frozen = learner->frozen;
    const struct dt_layout *model = dt_learner_model_layout(learner);
    const struct dt_param *embedding =
        &model->params[dt_layout_embedding(model)];
    return frozen && frozen->units[embedding->unit].count > 0;
}

double dt_flops_per_token(const struct dt_spec *spec)
{
    const struct dt_learner_spec *learner = &spec->learner;
    const struct dt_model_config *config = &learner->config;
    double flops = trained_flops(spec) + frozen_flops(spec);
    if (spec->algo->advantages)
        return NAN;
    flops -= (freezes_embedding(learner) ? 4 : 6) * looked_up(config);
    if (dt_run_is_stream(&spec->conf))
        flops += attention(config, spec->T);
    return flops;
}

enum dt_dtype dt_spec_state_type(const struct dt_spec *spec)
{
    return dt_run_dtype(spec->conf.optimizer.state_dtype);
}

bool dt_spec_rounds_saved(const struct dt_spec *spec, enum dt_dtype stored)
{
    return stored != DT_F32 && stored != dt_spec_state_type(spec);
}

enum dt_dtype dt_spec_stored_type(const struct dt_spec *spec,
                                  enum dt_dtype compute)
{
    const int wanted = spec->conf.checkpoint.save_dtype;
    if (wanted == DT_CONF_AUTO_DTYPE && dt_learner_adapts(&spec->learner))
        return DT_F32; /* as PEFT saves adapters */
    return wanted == DT_CONF_AUTO_DTYPE ? compute : dt_run_dtype(wanted);
}
