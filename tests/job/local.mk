# SPDX-License-Identifier: Apache-2.0
#
# Each file has a cluster of its own, so make -j runs several at once.

TEST_EXTENSIONS = .bats
BATS_LOG_DRIVER = $(LOG_DRIVER)
BATS_LOG_COMPILER = bats
AM_BATS_LOG_FLAGS = --tap

job_tests = \
	tests/job/cli.bats \
	tests/job/comm.bats \
	tests/job/completion.bats \
	tests/job/compose.bats \
	tests/job/config.bats \
	tests/job/console.bats \
	tests/job/console_report.bats \
	tests/job/cuda.bats \
	tests/job/cuda_sampled.bats \
	tests/job/cuda_step.bats \
	tests/job/devcluster.bats \
	tests/job/doctor.bats \
	tests/job/frameworks.bats \
	tests/job/generate.bats \
	tests/job/grpo.bats \
	tests/job/hang.bats \
	tests/job/keeper.bats \
	tests/job/launch.bats \
	tests/job/lost_nodes.bats \
	tests/job/memory.bats \
	tests/job/network.bats \
	tests/job/node_loss.bats \
	tests/job/offload.bats \
	tests/job/packaging.bats \
	tests/job/plan.bats \
	tests/job/plugin.bats \
	tests/job/preference.bats \
	tests/job/quickstart.bats \
	tests/job/refuse.bats \
	tests/job/resources.bats \
	tests/job/resume.bats \
	tests/job/rlhf.bats \
	tests/job/sbatch.bats \
	tests/job/scale.bats \
	tests/job/sft.bats \
	tests/job/site.bats \
	tests/job/train.bats \
	tests/job/vision.bats \
	tests/job/vision_pairs.bats \
	tests/job/vision_rl.bats \
	tests/job/vlm.bats \
	tests/job/wandb.bats \
	# End of job_tests

EXTRA_DIST += $(job_tests) tests/job/all_reduce.py tests/job/console.bash \
	tests/job/helpers.bash tests/job/vision.bash \
	tests/job/wandb_client.py

# Slurm's own programs cannot load a plugin that wants a sanitizer in them.
if HAVE_BATS
if !SANITIZER
TESTS += $(job_tests)
endif
endif

# Programs that tests run; they are not tests themselves.
noinst_PROGRAMS += tests/job/comm_probe tests/job/takes_hangup.so \
	tests/job/tensors
tests_job_takes_hangup_so_SOURCES = tests/job/takes_hangup.c
tests_job_takes_hangup_so_CFLAGS = $(DT_CFLAGS) -fPIC
tests_job_takes_hangup_so_LDADD =
tests_job_takes_hangup_so_LINK = $(CC) -shared -o $@
if HAVE_PMIX
noinst_PROGRAMS += tests/job/pmix_ring
tests_job_pmix_ring_LDADD = $(PMIX_LIBS)
endif
if HAVE_NCCL
noinst_PROGRAMS += tests/job/nccl_probe
tests_job_nccl_probe_SOURCES = tests/job/nccl_probe.c \
	runtime/comm/nccl_api.c runtime/comm/nccl_bootstrap.c
tests_job_nccl_probe_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_job_nccl_probe_LDFLAGS = $(AM_LDFLAGS) $(CUDA_LDFLAGS)
tests_job_nccl_probe_LDADD = $(LDADD) -lcudart_static -ldl -lrt -lpthread
endif
