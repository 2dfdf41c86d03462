# SPDX-License-Identifier: Apache-2.0

EXTRA_DIST += \
	.ci/run \
	contrib/build.sh \
	contrib/check \
	contrib/devcluster \
	contrib/devcluster.d/holder.sh \
	contrib/devcluster.d/slurm.sh \
	contrib/devcluster.d/spaces.sh \
	contrib/quickstart
