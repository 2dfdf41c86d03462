/* SPDX-License-Identifier: Apache-2.0 */
/* families.h - families that tests make models of without a config.json */
#ifndef DT_TESTS_FAMILIES_H
#define DT_TESTS_FAMILIES_H

#include "model/model.h"

extern const struct dt_family dt_family_gpt2, dt_family_llama,
    dt_family_mistral, dt_family_phi3, dt_family_qwen3;

#endif /* DT_TESTS_FAMILIES_H */
