# SPDX-License-Identifier: Apache-2.0

EXTRA_DIST += \
	.ci/run \
	contrib/build.sh \
	contrib/check \
	contrib/devcluster \
	contrib/devcluster.d/holder.sh \
	contrib/devcluster.d/slurm.sh \
	contrib/devcluster.d/spaces.sh \
	contrib/each-commit \
	contrib/include-graph \
	contrib/portable \
	contrib/portable.d/build \
	contrib/quickstart \
	contrib/rlhf \
	contrib/unicode-tables \
	contrib/vlm \
	# End of EXTRA_DIST

# configure determines the directory (bashcompletiondir).
dist_bashcompletion_DATA = contrib/completions/disttrain

# One batch script per framework, and the program that it starts.
dist_examples_DATA += \
	contrib/examples/deepspeed.sbatch \
	contrib/examples/deepspeed_train.py \
	contrib/examples/jax.sbatch \
	contrib/examples/jax_train.py \
	contrib/examples/native.sbatch \
	contrib/examples/native.yaml \
	contrib/examples/torch.sbatch \
	contrib/examples/torch_train.py \
	# End of dist_examples_DATA

# What logging.report_to: [wandb] names; not as a script, of which rpm would make
# a dependency on Python.
dist_examples_DATA += contrib/wandb-follow

# Reward programs to begin with.
rewardsdir = $(examplesdir)/rewards
dist_rewards_DATA = \
	contrib/rewards/length_reward.c \
	contrib/rewards/math_reward.py

# The line for plugstack.conf, with the path given to configure
# (--with-spankdir).
EXTRA_DIST += contrib/plugstack/zz-disttrain.conf.in
if HAVE_SLURM
nodist_examples_DATA = contrib/plugstack/zz-disttrain.conf
CLEANFILES += contrib/plugstack/zz-disttrain.conf
contrib/plugstack/zz-disttrain.conf: contrib/plugstack/zz-disttrain.conf.in \
	Makefile
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	sed 's|[@]spankdir[@]|$(spankdir)|' \
	    $(top_srcdir)/contrib/plugstack/zz-disttrain.conf.in >$@
endif

# Packages: dpkg-buildpackage and rpmbuild also work from a tarball.
EXTRA_DIST += \
	contrib/packaging/disttrain.spec \
	debian/changelog \
	debian/control \
	debian/copyright \
	debian/disttrain.install \
	debian/not-installed \
	debian/rules \
	debian/slurm-wlm-disttrain-plugin.install \
	debian/slurm-wlm-disttrain-plugin.postrm \
	debian/slurm-wlm-disttrain-plugin.preinst \
	debian/source/format \
	# End of EXTRA_DIST
