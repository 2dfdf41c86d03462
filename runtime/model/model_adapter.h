/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_adapter.h - LoRA: tensors that are trained while weights are frozen, as
 * PEFT has them
 *
 * The weight w of a linear layer has a pair A(r, in), B(out, r): y = x w^T +
 * scale (dropout(x) A^T) B^T (Hu et al., "LoRA", arXiv 2106.09685, sec. 4.1).
 * Modules that are saved are trained as a whole, in a copy. Both are parameters
 * of a layout of their own, with the units of the model's and the names of
 * adapter_model.safetensors: "base_model.model.<module>.lora_A.weight" and so
 * on.
 */
#ifndef DT_MODEL_MODEL_ADAPTER_H
#define DT_MODEL_MODEL_ADAPTER_H

#include "model/model.h"

/* Ends of names of modules, without the dot before them. */
struct dt_adapter_names {
    char **text;
    size_t count;
};

struct dt_adapter {
    size_t r;
    double alpha, dropout;
    bool rslora;            /* the scale is alpha / sqrt(r), not alpha / r */
    bool all_linear;        /* all linear layers of blocks have a pair */
    bool vision, projector; /* names fit modules of these parts, too, and not
                               those of the language model alone */
    struct dt_adapter_names targets; /* else those that have one; none: PEFT's
                                        choice, queries and values */
    struct dt_adapter_names saved;
    bool scores; /* it was trained with the head of a reward model */
    char *base;  /* directory of the frozen weights, or NULL */
    bool stored; /* it is from a file, where names may fit nothing: PEFT adds
                    those of other models */
};

/* Adds a copy of a name, unless it is there. -1: EX_OSERR. */
int dt_adapter_add_name(struct dt_adapter_names *names, const char *text,
                        struct dt_error *err);
void dt_adapter_clear_names(struct dt_adapter_names *names);
void dt_adapter_fini(struct dt_adapter *adapter);

/* The factor of the product of a pair. */
float dt_adapter_scale(const struct dt_adapter *adapter);

enum { DT_ADAPTER_NAME_BYTES = 192 }; /* of the longest name of a tensor */

/* The module that A of a pair belongs to. false: this is the name of another
 * tensor.
 */
bool dt_adapter_module(const char *name, char module[DT_ADAPTER_NAME_BYTES]);

/* The layout of the tensors that are trained, finished for `world` ranks;
 * `model` is that of the frozen weights. NULL and err: EX_CONFIG, a name that
 * fits no module, or one that cannot be trained this way.
 */
struct dt_layout *dt_adapter_layout(const struct dt_adapter *adapter,
                                    const struct dt_model_config *config,
                                    const struct dt_layout *model, int world,
                                    struct dt_error *err);

/* The parameter of the model that a parameter of an adapter, of this name, is a
 * copy of; -1: it belongs to a pair, or to another model.
 */
int dt_adapter_copied(const struct dt_layout *model, const char *name);

/* Random A and zero B of unit u, fp32, in host memory, distributed as PEFT's:
 * A is uniform within 1 / sqrt(in). A function of (seed, element) only. Copies
 * and padding stay as they are.
 */
void dt_adapter_init_unit(const struct dt_layout *layout, size_t u,
                          struct dt_view weights, uint64_t seed);

/* The pair and the copy of a parameter of the model, in the adapter's layout,
 * or -1.
 */
struct dt_adapter_place {
    int a, b, copy;
};

/* Finds the places(model->param_count). */
void dt_adapter_find(const struct dt_layout *layout,
                     const struct dt_layout *model,
                     struct dt_adapter_place *places);

/* Sizes of a pair: A(R, C), B(OC, R). */
struct dt_adapter_sizes {
    size_t R, C, OC;
};

/* Sizes of the pair of rank r for parameter `w` of a model. */
struct dt_adapter_sizes dt_adapter_sizes_of(
    const struct dt_model_config *config, const struct dt_param *w, size_t r);

#endif /* DT_MODEL_MODEL_ADAPTER_H */
