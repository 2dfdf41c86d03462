/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c - means of numbers that replies have beside their rewards */
#include "config.h"

#include <stdio.h>

#include "reward/impl.h"

enum { KEY_BYTES = 128, KEYS_MAX = 256 };

int dt_reward_metrics_init(struct dt_reward_metrics *metrics)
{
    pthread_mutex_init(&metrics->mutex, NULL);
    metrics->sums = json_object();
    metrics->counts = json_object();
    return metrics->sums && metrics->counts ? 0 : -1;
}

void dt_reward_metrics_fini(struct dt_reward_metrics *metrics)
{
    json_decref(metrics->sums);
    json_decref(metrics->counts);
    pthread_mutex_destroy(&metrics->mutex);
}

static double value_of(const json_t *map, const char *key)
{
    return json_number_value(json_object_get(map, key));
}

void dt_reward_metrics_add(struct dt_reward_metrics *metrics, const char *name,
                           const json_t *numbers)
{
    const char *key;
    json_t *value;
    pthread_mutex_lock(&metrics->mutex);
    json_object_foreach((json_t *)numbers, key, value)
    {
        char full[KEY_BYTES];
        snprintf(full, sizeof(full), "%.50s/%.60s", name, key);
        if (json_object_size(metrics->sums) >= KEYS_MAX &&
            !json_object_get(metrics->sums, full))
            continue; /* names that never repeat are no metrics */
        double sum = value_of(metrics->sums, full) + json_number_value(value);
        double count = value_of(metrics->counts, full) + 1;
        json_object_set_new(metrics->sums, full, json_real(sum));
        json_object_set_new(metrics->counts, full, json_real(count));
    }
    pthread_mutex_unlock(&metrics->mutex);
}

json_t *dt_reward_metrics_take(struct dt_reward_metrics *metrics)
{
    json_t *means = json_object(), *sum;
    const char *key;
    pthread_mutex_lock(&metrics->mutex);
    json_object_foreach(metrics->sums, key, sum)
    {
        double mean = json_number_value(sum) / value_of(metrics->counts, key);
        json_object_set_new(means, key, json_real(mean));
    }
    json_object_clear(metrics->sums);
    json_object_clear(metrics->counts);
    pthread_mutex_unlock(&metrics->mutex);
    return means;
}
