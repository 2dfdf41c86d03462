/* SPDX-License-Identifier: Apache-2.0 */
/* adapter_scene.h - models and data of tiny runs that train an adapter */
#ifndef TESTS_UNIT_ADAPTER_SCENE_H
#define TESTS_UNIT_ADAPTER_SCENE_H

#define SMALL                                                                  \
    "run.output_dir: out\n"                                                    \
    "logging.report_to: jsonl\n"                                               \
    "scheduler.name: constant\n"                                               \
    "optimizer.lr: 0.01\n"

#include "train/resume/resume.h"
#include "tests/unit/small_run.h"

#define MODEL "model: {n_positions: 32, n_embd: 32, n_layer: 2, n_head: 2}\n"
#define ROWS_OF "data: {train: train.jsonl, max_length: 32}\n"
#define SFT "algorithm: sft\n" ROWS_OF "model.path: base\n"
#define TWELVE "training: {train_batch_size: 12, max_steps: 9, resume: auto}\n"
#define LORA "adapter: {type: lora, r: 4, alpha: 8}\n"
#define BF16 "precision.compute: bf16\n"

enum { LAST = 4 };

static inline int steps(struct dt_run *run, long last, struct dt_error *err)
{
    struct dt_report_step line;
    while (run->progress.step < last)
        if (small_step(run, &line, err) < 0)
            return -1;
    return 0;
}

static inline int save_now(struct dt_run *run, void *arg)
{
    struct dt_error err = {0}, why = {0};
    (void)arg;
    TRY(dt_run_save(run, &why, &err) == 0);
    TRY(run->spec.world == 1 || dt_comm_barrier(run->comm, &err) == 0);
    return 0;
}

static inline void write_file(const char *path, const char *text, int lines)
{
    FILE *file = fopen(path, "w");
    for (int i = 0; i < lines; i++)
        fprintf(file, text, i, i % 4 + 5, "abcdefgh");
    assert_int_equal(fclose(file), 0);
}

/* A family with norms around blocks, windows, and scales. */
static inline void write_gemma(void)
{
    mkdir("config", 0777);
    FILE *file = fopen("config/config.json", "w");
    fputs("{\"model_type\": \"gemma3_text\", \"architectures\": "
          "[\"Gemma3ForCausalLM\"], \"vocab_size\": 257, \"hidden_size\": 32, "
          "\"intermediate_size\": 48, \"num_hidden_layers\": 2, "
          "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
          "\"head_dim\": 8, \"query_pre_attn_scalar\": 8, "
          "\"max_position_embeddings\": 64, \"sliding_window\": 8, "
          "\"layer_types\": [\"sliding_attention\", \"full_attention\"], "
          "\"tie_word_embeddings\": true}",
          file);
    assert_int_equal(fclose(file), 0);
}

/* Random weights in base/ and gemma/, and data for all algorithms. */
static inline int adapter_enter(void **state)
{
    if (small_enter(state) < 0)
        return -1;
    write_file("pairs.jsonl",
               "{\"prompt\": \"%d:\", \"chosen\": \"%.*s\", \"rejected\": "
               "\"zz\"}\n",
               24);
    FILE *file = fopen("prompts.jsonl", "w");
    for (int i = 0; i < 10; i++)
        fprintf(file, "{\"prompt\": \"%.*s\"}\n", i % 4 + 1, "abcdefgh");
    fclose(file);
    write_gemma();
    small_runs(1,
               "algorithm: sft\n" ROWS_OF TWELVE
               "model: {config_path: config, init: random}\n",
               save_now, NULL);
    if (rename("out/checkpoints/checkpoint-0", "gemma") < 0)
        return -1;
    small_runs(1, "algorithm: sft\n" ROWS_OF MODEL TWELVE, save_now, NULL);
    return rename("out/checkpoints/checkpoint-0", "base");
}

#endif /* TESTS_UNIT_ADAPTER_SCENE_H */
