/* SPDX-License-Identifier: Apache-2.0 */
/* reward_models.c - bytes and operations of the reward models of a run
 *
 * A reward model may be of another family than the policy: the same image has
 * other patches and tokens there.
 */
#include "config.h"

#include <stdlib.h>

#include "forecast/cost.h"
#include "plan/reward_models.h"
#include "reward/scorer.h"
#include "rollout/sight.h"
#include "weights/weights.h"

/* Images of prompts, as a model sees them. */
struct looks {
    size_t patches, pictures; /* of the prompt with most of them */
    size_t extra;             /* tokens that it has more than the policy */
    double mean_patches, mean_pictures; /* of all prompts */
};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Whatever the prompts are, of which as many fit as their images have tokens
 * for the policy, and for the model.
 */
static struct looks bound_looks(const struct dt_spec *spec,
                                const struct dt_model_config *config,
                                const struct dt_image_processor *processor)
{
    const struct dt_image_bounds own = dt_image_bounds(&spec->images.processor);
    const struct dt_image_bounds of = dt_image_bounds(processor);
    const size_t images =
        (size_t)spec->conf.data.max_prompt_length / own.least_tokens;
    struct looks looks;
    dt_run_images_bound(config, config->n_positions, &looks.patches,
                        &looks.pictures);
    looks.patches = smaller(looks.patches, images * of.patches);
    looks.pictures = smaller(looks.pictures, images * of.tiles);
    looks.extra = of.tokens > own.least_tokens
                      ? images * (of.tokens - own.least_tokens)
                      : 0;
    looks.mean_patches = (double)looks.patches;
    looks.mean_pictures = (double)looks.pictures;
    return looks;
}

/* Adds prompt p. */
static int add_looks(struct looks *looks, const struct dt_prompts *prompts,
                     uint64_t p, const struct dt_image_processor *processor,
                     struct dt_error *err)
{
    struct dt_example_parts parts;
    struct dt_example_image image;
    struct dt_image_plan plan;
    size_t words, patches = 0, pictures = 0, tokens = 0, own = 0;
    const uint32_t *example = dt_prompts_example(prompts, p, &words);
    dt_example_find(example, words, &parts);
    for (size_t t = 0; t < parts.token_count; t++)
        own += (int32_t)parts.tokens[t] < 0;
    while (dt_example_next_image(&parts, &image)) {
        if (dt_image_plan(&plan, processor, image.height, image.width, err) < 0)
            return dt_prompts_name(prompts, p, err);
        patches += plan.patches;
        pictures += plan.tiles;
        tokens += plan.tokens;
    }
    looks->patches = larger(looks->patches, patches);
    looks->pictures = larger(looks->pictures, pictures);
    looks->extra = larger(looks->extra, tokens > own ? tokens - own : 0);
    looks->mean_patches += (double)patches;
    looks->mean_pictures += (double)pictures;
    return 0;
}

/* The prompts of data, those held out, too. */
static int count_looks(const struct dt_run_data *data,
                       const struct dt_image_processor *processor,
                       struct looks *looks, struct dt_error *err)
{
    const struct dt_prompts *of[] = {data->prompts, data->held_out};
    double all = 0;
    *looks = (struct looks){0};
    for (size_t i = 0; i < 2 && of[i]; i++) {
        const size_t count = dt_prompts_stats(of[i]).count;
        for (uint64_t p = 0; p < count; p++)
            if (add_looks(looks, of[i], p, processor, err) < 0)
                return -1;
        all += (double)count;
    }
    looks->mean_patches /= all;
    looks->mean_pictures /= all;
    return 0;
}

/* The images that the model in `dir` sees; none if it or the policy is one of
 * text.
 */
static int find_looks(const struct dt_spec *spec,
                      const struct dt_run_data *data,
                      const struct dt_model_config *config, const char *dir,
                      struct looks *looks, struct dt_error *err)
{
    struct dt_image_processor processor;
    char base[PATH_MAX];
    *looks = (struct looks){0};
    if (!config->vision || !spec->images.there)
        return 0;
    if (dt_weights_base(dir, base, err) < 0 ||
        dt_sight_load(&processor, config->vision, dt_sight_dir(dir, base),
                      err) < 0)
        return -1;
    if (data)
        return count_looks(data, &processor, looks, err);
    *looks = bound_looks(spec, config, &processor);
    return 0;
}

/* Adds a model that sees this: its room and its bytes, and operations for a
 * completion of full length with its prompt.
 */
static int add_model(struct dt_spec *spec, size_t number,
                     const struct dt_model_config *config,
                     const struct looks *looks, enum dt_dtype compute,
                     struct dt_error *err)
{
    struct dt_sampling_spec *s = &spec->sampling;
    struct dt_layout *layout = dt_model_layout(config, 1, err);
    if (!layout)
        return -1;
    const size_t longest =
        smaller(spec->T + 1 + looks->extra, config->n_positions); /* with the
                                                     token that ends a text */
    const struct dt_reward_room room = {longest, looks->patches,
                                        looks->pictures};
    const struct dt_scorer_room row = {.longest = room.longest,
                                       .patches = room.patches,
                                       .pictures = room.pictures};
    s->reward_rooms[number] = room;
    s->reward_bytes += layout->count * dt_dtype_bytes(compute) +
                       dt_scorer_bytes(config, spec->exec.ops, compute, &row);
    for (size_t u = 0; u < layout->unit_count; u++)
        if (dt_cost_is_block(config, layout, u))
            s->reward_operations +=
                dt_cost_block(config, layout, u, 1, longest);
    s->reward_looks += dt_cost_tower(config, layout, 0, looks->mean_patches,
                                     looks->mean_pictures);
    dt_layout_destroy(layout);
    return 0;
}

static int read_model(struct dt_spec *spec, size_t number,
                      const struct dt_run_data *data, enum dt_dtype compute,
                      struct dt_error *err)
{
    const struct dt_conf_reward *function =
        &spec->conf.reward.functions[number];
    struct dt_model_config config = {0};
    struct looks looks;
    char found[PATH_MAX];
    int rc = dt_weights_find(function->path, found, err);
    if (rc == 0)
        rc = dt_weights_config(found, &config, err);
    if (rc == 0)
        rc = find_looks(spec, data, &config, found, &looks, err);
    if (rc == 0)
        rc = add_model(spec, number, &config, &looks, compute, err);
    dt_model_config_fini(&config);
    return rc < 0 ? dt_error_prefix(err, "reward %s", function->name) : 0;
}

int dt_plan_rewards(struct dt_spec *spec, const struct dt_run_data *data,
                    enum dt_dtype compute, struct dt_error *err)
{
    const struct dt_conf_rewards *rewards = &spec->conf.reward;
    struct dt_sampling_spec *s = &spec->sampling;
    free(s->reward_rooms);
    s->reward_bytes = 0;
    s->reward_operations = s->reward_looks = 0;
    s->reward_rooms = calloc(rewards->count + 1, sizeof(*s->reward_rooms));
    if (!s->reward_rooms)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (size_t i = 0; i < rewards->count; i++)
        if (rewards->functions[i].type == DT_CONF_REWARD_MODEL &&
            read_model(spec, i, data, compute, err) < 0)
            return -1;
    return 0;
}
