# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += \
	tests/unit/test_adamw \
	tests/unit/test_adapter \
	tests/unit/test_adapter_run \
	tests/unit/test_advantages \
	tests/unit/test_agree \
	tests/unit/test_backend \
	tests/unit/test_base \
	tests/unit/test_base_net \
	tests/unit/test_best \
	tests/unit/test_bpe_cuts \
	tests/unit/test_cache \
	tests/unit/test_cache_file \
	tests/unit/test_chat \
	tests/unit/test_ckpt \
	tests/unit/test_ckpt_dir \
	tests/unit/test_ckpt_disk \
	tests/unit/test_ckpt_find \
	tests/unit/test_ckpt_folder \
	tests/unit/test_cmd_check \
	tests/unit/test_cmd_check_model \
	tests/unit/test_cmd_explain \
	tests/unit/test_cmd_export \
	tests/unit/test_cmd_options \
	tests/unit/test_cmd_plan \
	tests/unit/test_cmd_plan_groups \
	tests/unit/test_cmd_plan_sampled \
	tests/unit/test_cmd_prepare \
	tests/unit/test_cmd_sbatch \
	tests/unit/test_cmd_trace \
	tests/unit/test_comm \
	tests/unit/test_conf_broken \
	tests/unit/test_conf_data \
	tests/unit/test_conf_deepspeed \
	tests/unit/test_conf_device \
	tests/unit/test_conf_distributed \
	tests/unit/test_conf_foreign \
	tests/unit/test_conf_json \
	tests/unit/test_conf_launch \
	tests/unit/test_conf_memory \
	tests/unit/test_conf_overrides \
	tests/unit/test_conf_preference \
	tests/unit/test_conf_reward \
	tests/unit/test_conf_sampled \
	tests/unit/test_conf_training \
	tests/unit/test_conf_values \
	tests/unit/test_connected \
	tests/unit/test_console \
	tests/unit/test_console_event \
	tests/unit/test_console_recorded \
	tests/unit/test_cost \
	tests/unit/test_costs \
	tests/unit/test_cut \
	tests/unit/test_dataset \
	tests/unit/test_doctor_child \
	tests/unit/test_doctor_node \
	tests/unit/test_doctor_pairs \
	tests/unit/test_doctor_plugin \
	tests/unit/test_doctor_report \
	tests/unit/test_dpo \
	tests/unit/test_dpo_loss \
	tests/unit/test_energy \
	tests/unit/test_error \
	tests/unit/test_events \
	tests/unit/test_examples \
	tests/unit/test_experience \
	tests/unit/test_foreign \
	tests/unit/test_forms \
	tests/unit/test_frameworks \
	tests/unit/test_generate \
	tests/unit/test_generation_plan \
	tests/unit/test_graphs \
	tests/unit/test_groups \
	tests/unit/test_grpo \
	tests/unit/test_grpo_loss \
	tests/unit/test_half \
	tests/unit/test_hang \
	tests/unit/test_held_out \
	tests/unit/test_history \
	tests/unit/test_int8_run \
	tests/unit/test_join \
	tests/unit/test_jsonl \
	tests/unit/test_killed_run \
	tests/unit/test_kind \
	tests/unit/test_launch \
	tests/unit/test_launcher \
	tests/unit/test_layout \
	tests/unit/test_least \
	tests/unit/test_limits \
	tests/unit/test_live \
	tests/unit/test_loader \
	tests/unit/test_memory \
	tests/unit/test_missing \
	tests/unit/test_model_config \
	tests/unit/test_model_format \
	tests/unit/test_model_init \
	tests/unit/test_model_inputs \
	tests/unit/test_model_layout \
	tests/unit/test_model_plan \
	tests/unit/test_model_refused \
	tests/unit/test_models \
	tests/unit/test_optim \
	tests/unit/test_outcome \
	tests/unit/test_outcome_trust \
	tests/unit/test_output \
	tests/unit/test_overlap \
	tests/unit/test_owner \
	tests/unit/test_page \
	tests/unit/test_pair_batches \
	tests/unit/test_pair_rows \
	tests/unit/test_pairs \
	tests/unit/test_parallel \
	tests/unit/test_parallel_order \
	tests/unit/test_parts \
	tests/unit/test_plan \
	tests/unit/test_ppo \
	tests/unit/test_ppo_early \
	tests/unit/test_ppo_generation \
	tests/unit/test_ppo_loss \
	tests/unit/test_ppo_shared \
	tests/unit/test_precompute \
	tests/unit/test_preference \
	tests/unit/test_prefetch \
	tests/unit/test_proc \
	tests/unit/test_progress \
	tests/unit/test_prompts \
	tests/unit/test_protobuf \
	tests/unit/test_quick_json \
	tests/unit/test_record \
	tests/unit/test_reference \
	tests/unit/test_refill \
	tests/unit/test_report \
	tests/unit/test_report_to \
	tests/unit/test_restore \
	tests/unit/test_reward_batch \
	tests/unit/test_reward_chaos \
	tests/unit/test_reward_examples \
	tests/unit/test_reward_model \
	tests/unit/test_reward_rules \
	tests/unit/test_rm \
	tests/unit/test_rollout \
	tests/unit/test_rows \
	tests/unit/test_run_data \
	tests/unit/test_run_open \
	tests/unit/test_run_save \
	tests/unit/test_safetensors \
	tests/unit/test_safetensors_model \
	tests/unit/test_samples \
	tests/unit/test_scaler \
	tests/unit/test_scoring_stop \
	tests/unit/test_secret \
	tests/unit/test_sentencepiece \
	tests/unit/test_sinks \
	tests/unit/test_siphash \
	tests/unit/test_span \
	tests/unit/test_step \
	tests/unit/test_stragglers \
	tests/unit/test_strategy \
	tests/unit/test_submission \
	tests/unit/test_swap \
	tests/unit/test_swap_faults \
	tests/unit/test_swap_refused \
	tests/unit/test_template \
	tests/unit/test_tensor_names \
	tests/unit/test_tensorboard \
	tests/unit/test_thread \
	tests/unit/test_threads \
	tests/unit/test_tiles \
	tests/unit/test_timeline \
	tests/unit/test_timeline_order \
	tests/unit/test_tokenizer \
	tests/unit/test_tokenizer_files \
	tests/unit/test_tokenizer_kinds \
	tests/unit/test_tokenizer_words \
	tests/unit/test_top \
	tests/unit/test_trace \
	tests/unit/test_trace_run \
	tests/unit/test_trainer \
	tests/unit/test_variables \
	tests/unit/test_weights \
	tests/unit/test_world \
	# End of tests/unit

EXTRA_DIST += \
	tests/console \
	tests/unit/adapter_scene.h \
	tests/unit/bytes_tokenizer.h \
	tests/unit/command.h \
	tests/unit/conf.h \
	tests/unit/conf_pair.h \
	tests/unit/count.h \
	tests/unit/deepspeed \
	tests/unit/dpo_run.h \
	tests/unit/drive.h \
	tests/unit/examples_file.h \
	tests/unit/forms \
	tests/unit/generate_scene.h \
	tests/unit/memory_pairs.h \
	tests/unit/model.h \
	tests/unit/outcome.h \
	tests/unit/pair_run.h \
	tests/unit/plan_run.h \
	tests/unit/ppo_run.h \
	tests/unit/prompt_scene.h \
	tests/unit/protobuf_reader.h \
	tests/unit/pty.h \
	tests/unit/random_weights.h \
	tests/unit/reward.h \
	tests/unit/reward_program.h \
	tests/unit/run_data.h \
	tests/unit/said.h \
	tests/unit/sampled_run.h \
	tests/unit/scratch.h \
	tests/unit/sink_scene.h \
	tests/unit/small_run.h \
	tests/unit/stderr_text.h \
	tests/unit/sysfs.h \
	tests/unit/tensor_read.h \
	tests/unit/turned_clock.h \
	# End of tests/unit

task_env = \
	tests/unit/task_env.c \
	tests/unit/task_env.h
tests_unit_test_frameworks_SOURCES = tests/unit/test_frameworks.c $(task_env)
tests_unit_test_variables_SOURCES = tests/unit/test_variables.c $(task_env)

disk = \
	tests/unit/disk.c \
	tests/unit/disk.h
tests_unit_test_cache_file_SOURCES = tests/unit/test_cache_file.c $(disk)

ckpt_root = tests/unit/ckpt_root.h $(disk)
tests_unit_test_ckpt_SOURCES = tests/unit/test_ckpt.c $(ckpt_root)
tests_unit_test_ckpt_disk_SOURCES = tests/unit/test_ckpt_disk.c $(ckpt_root)
tests_unit_test_ckpt_find_SOURCES = tests/unit/test_ckpt_find.c $(ckpt_root)
tests_unit_test_ckpt_folder_SOURCES = tests/unit/test_ckpt_folder.c $(ckpt_root)

comm_world = \
	tests/unit/world.c \
	tests/unit/world.h
tests_unit_test_comm_SOURCES = tests/unit/test_comm.c $(comm_world)
tests_unit_test_experience_SOURCES = tests/unit/test_experience.c \
	$(comm_world)
tests_unit_test_adapter_run_SOURCES = \
	tests/unit/test_adapter_run.c $(comm_world)
tests_unit_test_grpo_SOURCES = tests/unit/test_grpo.c $(comm_world)
tests_unit_test_ppo_SOURCES = tests/unit/test_ppo.c $(comm_world)
tests_unit_test_ppo_early_SOURCES = tests/unit/test_ppo_early.c $(comm_world)
tests_unit_test_ppo_shared_SOURCES = tests/unit/test_ppo_shared.c $(comm_world)
tests_unit_test_generation_plan_SOURCES = \
	tests/unit/test_generation_plan.c $(comm_world)
tests_unit_test_scoring_stop_SOURCES = \
	tests/unit/test_scoring_stop.c $(comm_world)
tests_unit_test_costs_SOURCES = tests/unit/test_costs.c $(comm_world)
tests_unit_test_best_SOURCES = tests/unit/test_best.c $(comm_world)
tests_unit_test_events_SOURCES = tests/unit/test_events.c $(comm_world)
tests_unit_test_least_SOURCES = tests/unit/test_least.c $(comm_world)
tests_unit_test_agree_SOURCES = tests/unit/test_agree.c $(comm_world)
tests_unit_test_run_open_SOURCES = tests/unit/test_run_open.c $(comm_world)
tests_unit_test_backend_SOURCES = tests/unit/test_backend.c $(comm_world)
tests_unit_test_step_SOURCES = tests/unit/test_step.c $(comm_world)
tests_unit_test_parallel_SOURCES = tests/unit/test_parallel.c $(comm_world)
tests_unit_test_restore_SOURCES = tests/unit/test_restore.c $(comm_world)
tests_unit_test_dpo_SOURCES = tests/unit/test_dpo.c $(comm_world)
tests_unit_test_reward_model_SOURCES = tests/unit/test_reward_model.c \
	$(comm_world)
tests_unit_test_int8_run_SOURCES = tests/unit/test_int8_run.c $(comm_world)
tests_unit_test_precompute_SOURCES = tests/unit/test_precompute.c $(comm_world)
tests_unit_test_held_out_SOURCES = tests/unit/test_held_out.c $(comm_world)
tests_unit_test_overlap_SOURCES = tests/unit/test_overlap.c $(comm_world)
tests_unit_test_prefetch_SOURCES = tests/unit/test_prefetch.c $(comm_world)
tests_unit_test_strategy_SOURCES = tests/unit/test_strategy.c $(comm_world)
tests_unit_test_reference_SOURCES = tests/unit/test_reference.c $(comm_world)
tests_unit_test_refill_SOURCES = tests/unit/test_refill.c $(comm_world)
tests_unit_test_samples_SOURCES = tests/unit/test_samples.c $(comm_world)
tests_unit_test_rm_SOURCES = tests/unit/test_rm.c $(comm_world)
tests_unit_test_run_save_SOURCES = tests/unit/test_run_save.c $(comm_world)
tests_unit_test_trace_run_SOURCES = \
	tests/unit/test_trace_run.c $(comm_world)
tests_unit_test_output_SOURCES = tests/unit/test_output.c $(comm_world)
tests_unit_test_trainer_SOURCES = tests/unit/test_trainer.c $(comm_world)

# What test_backend loads: a module, and one of another version.
EXTRA_PROGRAMS += tests/unit/stub.so tests/unit/stub_newer.so
EXTRA_tests_unit_test_backend_DEPENDENCIES = \
	tests/unit/stub.so \
	tests/unit/stub_newer.so
CLEANFILES += $(EXTRA_tests_unit_test_backend_DEPENDENCIES)
stub_link = $(CC) -shared $(DT_LDFLAGS) -o $@
tests_unit_stub_so_SOURCES = tests/unit/stub_backend.c runtime/base/error.c \
	runtime/base/secret.c
tests_unit_stub_so_CPPFLAGS = $(AM_CPPFLAGS) -DSTUB_VERSION=DT_BACKEND_VERSION
tests_unit_stub_so_CFLAGS = $(DT_CFLAGS) -fPIC
tests_unit_stub_so_LINK = $(stub_link)
tests_unit_stub_so_LDADD =
tests_unit_stub_newer_so_SOURCES = $(tests_unit_stub_so_SOURCES)
tests_unit_stub_newer_so_CPPFLAGS = $(AM_CPPFLAGS) \
	-DSTUB_VERSION=DT_BACKEND_VERSION+1
tests_unit_stub_newer_so_CFLAGS = $(DT_CFLAGS) -fPIC
tests_unit_stub_newer_so_LINK = $(stub_link)
tests_unit_stub_newer_so_LDADD =

if HAVE_CURL
check_PROGRAMS += tests/unit/test_reward_http
endif

# What test_reward_examples starts.
EXTRA_PROGRAMS += tests/unit/length_reward
EXTRA_tests_unit_test_reward_examples_DEPENDENCIES = tests/unit/length_reward
CLEANFILES += tests/unit/length_reward
tests_unit_length_reward_SOURCES = contrib/rewards/length_reward.c

# What test_energy loads in place of NVML.
EXTRA_PROGRAMS += tests/unit/fake_nvml.so
EXTRA_tests_unit_test_energy_DEPENDENCIES = tests/unit/fake_nvml.so
CLEANFILES += tests/unit/fake_nvml.so
tests_unit_fake_nvml_so_SOURCES = tests/unit/fake_nvml.c
tests_unit_fake_nvml_so_CFLAGS = $(DT_CFLAGS) -fPIC
tests_unit_fake_nvml_so_LINK = $(stub_link)
tests_unit_fake_nvml_so_LDADD =

# The plugin's modules, with stubs for the functions of Slurm.
if HAVE_SLURM
spank_tests = \
	tests/unit/test_facts \
	tests/unit/test_hostlist \
	tests/unit/test_net \
	tests/unit/test_port \
	tests/unit/test_siteconf \
	tests/unit/test_siteenv \
	tests/unit/test_spank_argv \
	tests/unit/test_spank_check \
	tests/unit/test_spank_cpu \
	tests/unit/test_spank_deadline \
	tests/unit/test_spank_exit \
	tests/unit/test_spank_gpu \
	tests/unit/test_spank_limits \
	tests/unit/test_spank_nested \
	tests/unit/test_spank_pmix \
	tests/unit/test_spank_ports \
	tests/unit/test_spank_program \
	tests/unit/test_spank_random \
	tests/unit/test_spank_requeue \
	tests/unit/test_spank_step \
	tests/unit/test_spank_submit \
	# End of spank_tests
check_PROGRAMS += $(spank_tests)
check_LTLIBRARIES = tests/unit/libspankstub.la
tests_unit_libspankstub_la_SOURCES = \
	tests/unit/spank_stub.c \
	tests/unit/spank_stub.h
tests_unit_libspankstub_la_CPPFLAGS = $(spank_cppflags)
spank_test_libs = spank/libdtspank.la tests/unit/libspankstub.la $(CMOCKA_LIBS)
tests_unit_test_hostlist_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_test_hostlist_LDADD = $(spank_test_libs)
tests_unit_test_facts_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_test_facts_LDADD = $(spank_test_libs)
tests_unit_test_net_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_test_net_LDADD = $(spank_test_libs)
tests_unit_test_port_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_test_port_LDADD = $(spank_test_libs)
tests_unit_test_siteconf_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_test_siteconf_LDADD = $(spank_test_libs)
tests_unit_test_siteenv_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_test_siteenv_LDADD = $(spank_test_libs)
tests_unit_test_spank_argv_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_test_spank_argv_LDADD = $(spank_test_libs)
tests_unit_test_spank_check_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_test_spank_check_LDADD = $(spank_test_libs)
tests_unit_test_spank_cpu_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_test_spank_cpu_LDADD = $(spank_test_libs) runtime/libdisttrain.a
# These, and test_spank_pmix, stand in for Slurm's library, where dlsym() looks.
tests_unit_test_spank_deadline_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_test_spank_deadline_LDADD = $(spank_test_libs)
tests_unit_test_spank_deadline_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_unit_test_spank_requeue_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_test_spank_requeue_LDADD = $(spank_test_libs)
tests_unit_test_spank_requeue_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_unit_test_spank_exit_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_test_spank_exit_LDADD = $(spank_test_libs)
tests_unit_test_spank_gpu_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_test_spank_gpu_LDADD = $(spank_test_libs)
tests_unit_test_spank_limits_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_test_spank_limits_LDADD = $(spank_test_libs) runtime/libdisttrain.a
tests_unit_test_spank_nested_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_test_spank_nested_LDADD = $(spank_test_libs)
tests_unit_test_spank_pmix_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_test_spank_pmix_LDADD = $(spank_test_libs) runtime/libdisttrain.a
tests_unit_test_spank_pmix_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_unit_test_spank_ports_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_test_spank_ports_LDADD = $(spank_test_libs)
tests_unit_test_spank_program_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_test_spank_program_LDADD = $(spank_test_libs) runtime/libdisttrain.a
tests_unit_test_spank_random_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_test_spank_random_LDADD = $(spank_test_libs)
tests_unit_test_spank_step_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_test_spank_step_LDADD = $(spank_test_libs)
tests_unit_test_spank_submit_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_test_spank_submit_LDADD = $(spank_test_libs)
endif
