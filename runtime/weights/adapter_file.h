/* SPDX-License-Identifier: Apache-2.0 */
/* adapter_file.h - the files of an adapter, as PEFT has them */
#ifndef DT_WEIGHTS_ADAPTER_FILE_H
#define DT_WEIGHTS_ADAPTER_FILE_H

#include "model/model_adapter.h"

#define DT_ADAPTER_CONFIG_FILE "adapter_config.json"
#define DT_ADAPTER_FILE "adapter_model.safetensors"

/* Reads <dir>/adapter_config.json, and where target_modules is an expression
 * the names in <dir>/adapter_model.safetensors. Options that make PEFT compute
 * otherwise are refused by the name of their key. -1: EX_NOINPUT, EX_DATAERR.
 * dt_adapter_fini in any case.
 */
int dt_adapter_load(struct dt_adapter *adapter, const char *dir,
                    struct dt_error *err);

/* adapter_config.json that PEFT reads; `layout` is the adapter's. Of a model
 * with a tower target_modules is an expression that fits whole names alone,
 * since ends of names fit modules of other parts. malloc'ed, NULL and err if
 * out of memory.
 */
char *dt_adapter_format(const struct dt_adapter *adapter,
                        const struct dt_model_config *config,
                        const struct dt_layout *layout, struct dt_error *err);

#endif /* DT_WEIGHTS_ADAPTER_FILE_H */
