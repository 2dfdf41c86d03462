/* SPDX-License-Identifier: Apache-2.0 */
/* test_adapter_run.c - runs that train an adapter beside frozen weights */
#include "config.h"

#include <unistd.h>

#include "plan/plan.h"
#include "run/reference/reference.h"
#include "train/train.h"
#include "tests/unit/train/adapter_scene.h"
#include "tests/unit/said.h"
#include "weights/weights.h"

/* --- what is trained --- */

struct seen {
    double loss[LAST];
    bool frozen_same, trained_changed;
};

static float *copy_all(struct dt_parallel *parallel,
                       const struct dt_layout *layout)
{
    struct dt_error err;
    float *all = calloc(layout->count, sizeof(*all));
    for (size_t u = 0; u < layout->unit_count; u++) {
        struct dt_view unit;
        if (dt_parallel_gather(parallel, u, false, &unit, &err) < 0)
            exit(1);
        if (unit.count == 0)
            continue;
        memcpy((char *)all +
                   layout->units[u].offset * dt_dtype_bytes(unit.dtype),
               dt_view_data(unit), unit.count * dt_dtype_bytes(unit.dtype));
    }
    return all;
}

/* Each step's loss; what an adapter leaves as it was. */
static int see(struct dt_run *run, void *arg)
{
    struct seen *seen = arg;
    struct dt_learner *l = &run->learner;
    struct dt_report_step line;
    struct dt_error err = {0};
    float *frozen = NULL, *trained = copy_all(l->parallel, l->spec->layout);
    if (l->spec->frozen)
        frozen = copy_all(l->frozen, l->spec->frozen);
    for (int k = 0; k < LAST; k++) {
        const double before = run->progress.loss_sum;
        const double tokens = run->progress.loss_tokens;
        TRY(small_step(run, &line, &err) == 0);
        if (run->spec.rank == 0)
            seen->loss[k] = (run->progress.loss_sum - before) /
                            (run->progress.loss_tokens - tokens);
    }
    float *after = copy_all(l->parallel, l->spec->layout);
    seen->trained_changed =
        memcmp(after, trained, l->spec->layout->count * sizeof(float)) != 0;
    free(after);
    if (frozen) {
        after = copy_all(l->frozen, l->spec->frozen);
        seen->frozen_same =
            !memcmp(after, frozen, l->spec->frozen->count * sizeof(float));
        free(after);
    }
    free(frozen);
    free(trained);
    return 0;
}

/* The pair adds zero at first. Without dropout the first loss is the model's
 * to the bit.
 */
static void a_new_adapter_begins_as_the_model(void **state)
{
    static const char *const targets[] = {
        "", "adapter.target_modules: all-linear\n",
        "adapter.target_modules: [c_fc, mlp.c_proj]\n"};
    struct seen model = {0};
    (void)state;
    small_runs(1, SFT TWELVE, see, &model);
    for (int i = 0; i < 3; i++) {
        struct seen adapter = {0};
        char lines[512];
        snprintf(lines, sizeof(lines), SFT TWELVE LORA "%s", targets[i]);
        small_runs(2, lines, see, &adapter);
        assert_true(near(adapter.loss[0], model.loss[0], 1e-6));
        assert_true(adapter.loss[LAST - 1] < adapter.loss[0]);
        assert_true(!near(adapter.loss[1], model.loss[1], 1e-4));
        assert_true(adapter.frozen_same && adapter.trained_changed);
    }
}

/* --- saving --- */

struct kept {
    float *weights[2]; /* of what the learners have trained */
    long from;
};

static int go(struct dt_run *run, void *arg)
{
    struct kept *kept = arg;
    struct dt_error err = {0};
    struct dt_learner *learner;
    TRY(steps(run, kept->from, &err) == 0);
    TRY(save_now(run, NULL) == 0);
    TRY(steps(run, LAST, &err) == 0);
    for (size_t i = 0; (learner = dt_run_learner(run, i)) != NULL; i++) {
        float *all = copy_all(learner->parallel, learner->spec->layout);
        if (run->spec.rank == 0)
            kept->weights[i] = all;
        else
            free(all);
    }
    return 0;
}

static int go_on(struct dt_run *run, void *arg)
{
    const struct kept *kept = arg;
    struct dt_error err = {0};
    struct dt_learner *learner;
    TRY(run->progress.step == kept->from);
    TRY(steps(run, LAST, &err) == 0);
    for (size_t i = 0; (learner = dt_run_learner(run, i)) != NULL; i++) {
        float *all = copy_all(learner->parallel, learner->spec->layout);
        TRY(!memcmp(all, kept->weights[i],
                    learner->spec->layout->count *
                        dt_dtype_bytes(learner->compute)));
        free(all);
    }
    return 0;
}

static void free_kept(struct kept *kept)
{
    free(kept->weights[0]);
    free(kept->weights[1]);
}

static void resumes(int size, const char *lines)
{
    struct kept kept = {.from = 2};
    small_runs(size, lines, go, &kept);
    small_resume(size, lines, go_on, &kept);
    free_kept(&kept);
}

#define RM                                                                     \
    "algorithm: rm\ndata: {train: pairs.jsonl, max_length: 32}\n"              \
    "model.path: base\n"
#define DPO                                                                    \
    "algorithm: dpo\ndata: {train: pairs.jsonl, max_length: 32}\n"             \
    "model.path: base\n"
#define GRPO                                                                   \
    "algorithm: grpo\nmodel.path: base\n"                                      \
    "data: {train: prompts.jsonl, max_length: 12, max_prompt_length: 4}\n"     \
    "rollout: {max_completion_length: 8}\n"                                    \
    "grpo: {num_generations: 4, beta: 0.1}\n"                                  \
    "reward: {functions: [{type: regex, pattern: \"(?s)[ -~].*\"}]}\n"
#define PPO                                                                    \
    "algorithm: ppo\nmodel.path: base\n"                                       \
    "data: {train: prompts.jsonl, max_length: 12, max_prompt_length: 4}\n"     \
    "rollout: {max_completion_length: 8}\n"                                    \
    "ppo: {epochs: 2, num_mini_batches: 2, kl_coef: 0.1}\n"                    \
    "reward: {functions: [{type: regex, pattern: \"(?s)[ -~].*\"}]}\n"
#define SIXTEEN "training: {train_batch_size: 16, max_steps: 9, resume: auto}\n"

static void a_resumed_run_has_the_bits_of_one_that_went_on(void **state)
{
    static const char *const strategies[] = {"ddp", "zero1", "zero2", "zero3"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        char lines[512];
        snprintf(lines, sizeof(lines),
                 SFT TWELVE LORA "adapter.dropout: 0.1\n"
                                 "distributed.strategy: %s\n%s",
                 strategies[i], i % 2 ? BF16 : "");
        resumes(2, lines);
    }
    resumes(1, RM TWELVE LORA);
    resumes(2, DPO TWELVE LORA "distributed.strategy: zero3\n");
    resumes(2, GRPO SIXTEEN LORA);
    resumes(1, PPO SIXTEEN LORA BF16);
    resumes(2, PPO SIXTEEN LORA "distributed.strategy: zero3\n");
}

/* What ddp has begun, zero3 goes on with, to the same bits. */
static void zero3_has_the_bits_of_ddp(void **state)
{
    static const char *const ways[] = {"", LORA};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct kept kept = {.from = 2};
        char ddp[512], zero3[512];
        snprintf(ddp, sizeof(ddp),
                 "algorithm: sft\n" ROWS_OF TWELVE "model.path: gemma\n"
                 "%sdistributed.strategy: ddp\n",
                 ways[i]);
        snprintf(zero3, sizeof(zero3),
                 "algorithm: sft\n" ROWS_OF TWELVE "model.path: gemma\n"
                 "%sdistributed.strategy: zero3\n",
                 ways[i]);
        small_runs(2, ddp, go, &kept);
        small_resume(2, zero3, go_on, &kept);
        free_kept(&kept);
    }
}

#define FILES                                                                  \
    "distributed: {strategy: zero2, offload_optimizer: {device: nvme, path: "  \
    ".}}\n"

/* With the optimizer's state in files, from the first step or later. */
static void offload_changes_no_bit(void **state)
{
    struct kept kept = {.from = 2};
    (void)state;
    small_runs(2, SFT TWELVE LORA, go, &kept);
    small_resume(2, SFT TWELVE LORA FILES, go_on, &kept);
    small_runs(2, SFT TWELVE LORA FILES, save_now, NULL);
    kept.from = 0;
    small_resume(2, SFT TWELVE LORA FILES, go_on, &kept);
    free_kept(&kept);
}

static bool exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

#define SAVED "out/checkpoints/latest"

/* The model that --merge writes has the loss of the adapter beside its model.
 */
static void check_merged(double loss)
{
    struct dt_export export = {
        .from = "saved", .to = "merged", .max_shard_bytes = 1 << 30};
    struct seen merged = {0};
    struct dt_error err;
    assert_int_equal(dt_export(&export, &err), -1);
    assert_non_null(strstr(err.text, "--merge writes the model with it"));
    export.merge = export.same_dtype = true;
    if (dt_export(&export, &err) < 0)
        fail_msg("%s", err.text);
    small_runs(1, "algorithm: sft\n" ROWS_OF TWELVE "model.path: merged\n", see,
               &merged);
    assert_true(near(merged.loss[0], loss, 1e-6));
    export.to = "again";
    export.from = "merged";
    assert_int_equal(dt_export(&export, &err), -1);
    assert_non_null(strstr(err.text, "--merge is for adapters"));
    assert_int_equal(dt_file_remove_tree("merged", NULL), 0);
}

static void an_adapter_is_trained_on_where_it_was_saved(void **state)
{
    static const char *const ways[] = {
        "model.path: base\nadapter.path: saved\n", "model.path: saved\n"};
    struct kept kept = {.from = 2};
    struct seen before = {0}, after = {0};
    (void)state;
    for (int i = 0; i < 2; i++) {
        char lines[512];
        small_runs(1, SFT TWELVE LORA "adapter.target_modules: all-linear\n",
                   see, &before);
        small_runs(1, SFT TWELVE LORA "adapter.target_modules: all-linear\n",
                   go, &kept);
        free_kept(&kept);
        assert_true(exists(SAVED "/adapter_model.safetensors"));
        assert_true(exists(SAVED "/adapter_config.json"));
        assert_false(exists(SAVED "/model.safetensors"));
        assert_int_equal(rename("out/checkpoints/checkpoint-2", "saved"), 0);
        snprintf(lines, sizeof(lines), "algorithm: sft\n" ROWS_OF TWELVE "%s",
                 ways[i]);
        small_runs(1, lines, see, &after);
        assert_true(after.loss[0] < before.loss[1]);
        check_merged(after.loss[0]);
        assert_int_equal(dt_file_remove_tree("saved", NULL), 0);
    }
}

/* --- a critic --- */

/* What the values miss in the first step; whether frozen weights stay. */
static int see_critic(struct dt_run *run, void *arg)
{
    const struct dt_learner *critic = &run->critic;
    const size_t bytes = critic->spec->layout->count * sizeof(float);
    struct dt_report_step line;
    struct dt_error err = {0};
    float *frozen = NULL,
          *first = copy_all(critic->parallel, critic->spec->layout);
    if (critic->spec->frozen)
        frozen = copy_all(critic->frozen, critic->spec->frozen);
    TRY(small_step(run, &line, &err) == 0);
    if (run->spec.rank == 0)
        *(double *)arg = run->progress.metrics.value[DT_PPO_VALUE_LOSS];
    TRY(steps(run, LAST, &err) == 0);
    float *last = copy_all(critic->parallel, critic->spec->layout);
    TRY(memcmp(first, last, bytes) != 0);
    free(first);
    free(last);
    if (frozen) {
        last = copy_all(critic->frozen, critic->spec->frozen);
        TRY(!memcmp(frozen, last, critic->spec->frozen->count * sizeof(float)));
        free(last);
        free(frozen);
    }
    return 0;
}

/* It begins as the critic that is trained as a whole, and is no second model in
 * a checkpoint.
 */
static void a_critic_has_an_adapter_of_its_own(void **state)
{
    double whole = 0, adapted = 0;
    (void)state;
    small_runs(1, PPO SIXTEEN, see_critic, &whole);
    small_runs(2, PPO SIXTEEN LORA, see_critic, &adapted);
    assert_true(whole > 0 && near(adapted, whole, 1e-6));
    small_runs(1, PPO SIXTEEN LORA, save_now, NULL);
    assert_true(exists(SAVED "/critic/adapter_model.safetensors"));
    assert_false(exists(SAVED "/critic/model.safetensors"));

    assert_int_equal(symlink("base", "value"), 0);
    const char *text =
        said_by(small_resume, 1, PPO SIXTEEN LORA "model.value_path: value\n",
                save_now);
    const char *change = strstr(text, "the model beside the critic's adapter ");
    if (!change || !strstr(change, "/base -> ") || !strstr(change, "/value\n"))
        fail_msg("%s", text);
}

/* The critic has the pairs of the policy's adapter, which is the reference,
 * too, and not what else that has.
 */
static int look_at_critic(struct dt_run *run, void *arg)
{
    const struct dt_adapter *policy = &run->spec.learner.adapter;
    const struct dt_adapter *critic = &run->spec.critic.adapter;
    struct dt_error err = {0};
    (void)arg;
    TRY(run->reference.parallel);
    TRY(critic->r == policy->r && critic->all_linear == policy->all_linear);
    TRY(policy->saved.count == 1 && !strcmp(policy->saved.text[0], "ln_f"));
    TRY(critic->saved.count == 1 && !strcmp(critic->saved.text[0], "score"));
    TRY(steps(run, 2, &err) == 0);
    return 0;
}

static void a_policy_may_begin_with_an_adapter(void **state)
{
    (void)state;
    small_runs(1, SFT TWELVE LORA "adapter.modules_to_save: [ln_f]\n", save_now,
               NULL);
    assert_int_equal(rename("out/checkpoints/checkpoint-0", "saved"), 0);
    small_runs(2, PPO SIXTEEN "adapter.path: saved\n", look_at_critic, NULL);
    assert_int_equal(dt_file_remove_tree("saved", NULL), 0);
}

/* --- memory --- */

static _Thread_local size_t allocated;

static int count_bytes(size_t bytes, void **data, struct dt_error *err)
{
    allocated += bytes;
    return dt_cpu.allocate(bytes, data, err);
}

static int plan_is_what_is_allocated(const struct dt_comm_world *world,
                                     void *arg)
{
    struct dt_device device = dt_cpu;
    struct dt_exec exec = dt_exec_cpu();
    struct dt_error err = {0};
    struct dt_run whole = {.spec = {.rank = world->rank, .world = world->size}};
    struct dt_run *run = &whole;
    struct dt_model_options options;
    device.allocate = count_bytes;
    exec.device = &device;
    struct dt_comm *comm = small_comm(world, &err);
    TRY(comm);
    allocated = 0;
    TRY(dt_run_init(run, arg, &exec, comm, world->size, &err) == 0);
    struct dt_spec other = {
        .conf = run->spec.conf, .exec = exec, .world = run->spec.world};
    TRY(dt_plan_resolve(&other, &options, &err) == 0);
    const struct dt_plan plan = dt_plan_make(&run->spec, &options);
    /* the scalars of steps, the ranges of the optimizer and the hashes of
     * replicas are not in it
     */
    const size_t planned = dt_plan_total(&plan) - plan.batches;
    const size_t learners = run->spec.critic.layout ? 2 : 1;
    TRY(allocated >= planned && allocated - planned < learners * 1024);
    dt_spec_fini(&other);
    dt_run_fini(run);
    dt_comm_destroy(comm);
    return 0;
}

static void the_plan_is_what_is_allocated(void **state)
{
    static const char *const lines[] = {
        SFT TWELVE LORA "distributed.strategy: ddp\n",
        SFT TWELVE LORA "distributed.strategy: zero3\n" BF16,
        SFT TWELVE LORA "adapter.dropout: 0.5\ndistributed.strategy: zero2\n",
        PPO SIXTEEN LORA,
    };
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct dt_conf *conf = small_conf(lines[i]);
        small_clean(NULL);
        world_threads(2, plan_is_what_is_allocated, conf);
        dt_conf_destroy(conf);
    }
}

/* --- preference pairs --- */

/* A reference without the adapter is the model before the first step, and
 * stays that.
 */
static int compare_reference(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    struct dt_report_step line;
    (void)arg;
    TRY(!run->reference.parallel && dt_run_refers(run));
    TRY(small_step(run, &line, &err) == 0);
    TRY(near(run->progress.loss_sum / run->progress.loss_tokens, log(2), 1e-6));
    TRY(steps(run, LAST, &err) == 0);
    TRY(run->progress.loss_sum / run->progress.loss_tokens < log(2));
    return 0;
}

static void the_reference_is_the_model_without_its_adapter(void **state)
{
    (void)state;
    small_runs(1, DPO TWELVE LORA, compare_reference, NULL);
    small_runs(2, DPO TWELVE LORA "distributed.strategy: zero3\n",
               compare_reference, NULL);
}

/* --- refusals --- */

static void refused(const char *lines, const char *why)
{
    small_clean(NULL);
    small_refused(small_conf(lines), why);
}

static void modules_are_known_or_refused(void **state)
{
    (void)state;
    refused(SFT LORA TWELVE "adapter.target_modules: [c_atn]\n",
            "E124 target_modules: no module is called c_atn; linear layers of "
            "this model are c_attn, c_proj, c_fc");
    refused(SFT LORA TWELVE "adapter.target_modules: [wte]\n",
            "E124 target_modules: wte is no linear layer of a block");
    refused(SFT LORA TWELVE "adapter.modules_to_save: [wte]\n",
            "E124 modules_to_save: wte is the head, too");
    refused(SFT LORA TWELVE "adapter.modules_to_save: [wpe]\n",
            "E124 modules_to_save: wpe learned positions stay as they are");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_adapter_begins_as_the_model),
        cmocka_unit_test(a_resumed_run_has_the_bits_of_one_that_went_on),
        cmocka_unit_test(zero3_has_the_bits_of_ddp),
        cmocka_unit_test(offload_changes_no_bit),
        cmocka_unit_test(an_adapter_is_trained_on_where_it_was_saved),
        cmocka_unit_test(a_critic_has_an_adapter_of_its_own),
        cmocka_unit_test(a_policy_may_begin_with_an_adapter),
        cmocka_unit_test(the_plan_is_what_is_allocated),
        cmocka_unit_test(the_reference_is_the_model_without_its_adapter),
        cmocka_unit_test(modules_are_known_or_refused),
    };
    return cmocka_run_group_tests_name("adapter_run", tests, adapter_enter,
                                       small_leave);
}
