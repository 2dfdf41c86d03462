# SPDX-License-Identifier: Apache-2.0

EXTRA_DIST += \
	contrib/devcluster \
	contrib/devcluster.d/holder.sh \
	contrib/devcluster.d/slurm.sh \
	contrib/devcluster.d/spaces.sh
