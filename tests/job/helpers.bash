# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# helpers.bash - what all job tests share: one cluster a file
#
#     load helpers
#     setup_file() { dt_cluster_up --nodes 4 --cpus 2; }
#     teardown_file() { dt_cluster_down; }
#
# Each cluster has a name of its own, so files can run side by side.

bats_require_minimum_version 1.5.0

: "${DT_SRCDIR:=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}"
: "${DT_BUILDDIR:=$DT_SRCDIR}"
export DT_SRCDIR DT_BUILDDIR

# dt_cluster_lacks: prints why no cluster can be here, or nothing.
dt_cluster_lacks() {
    local tool
    [[ $(id -u) == 0 ]] || { echo "a cluster needs root" && return; }
    for tool in slurmctld slurmd munged srun; do
        command -v "$tool" >/dev/null ||
            { echo "$tool is not installed" && return; }
    done
    unshare --net --mount --uts --ipc --pid --fork true 2>/dev/null ||
        echo "the kernel grants no namespaces"
}

# dt_cluster_up [OPTION]...: for setup_file; OPTIONs are those of devcluster up.
dt_cluster_up() {
    DT_SKIP=$(dt_cluster_lacks)
    export DT_SKIP DT_CLUSTER=t$$
    [[ -n $DT_SKIP ]] || dt_devcluster up "$@"
}

# A file with a setup of its own calls dt_setup there.
dt_setup() {
    [[ -z $DT_SKIP ]] || skip "$DT_SKIP"
}

setup() {
    dt_setup
}

# dt_cluster_down: for teardown_file.
dt_cluster_down() {
    [[ -n $DT_SKIP ]] || dt_devcluster down
}

# dt_devcluster VERB [WORD]...: that verb on the file's cluster.
dt_devcluster() {
    "$DT_SRCDIR/contrib/devcluster" "$1" --name "$DT_CLUSTER" "${@:2}"
}

# dt_run [--user USER] [--node NODE] COMMAND...: on the cluster, as root unless
# said otherwise, for at most DT_TIMEOUT seconds (60).
dt_run() {
    timeout --kill-after=5 "${DT_TIMEOUT:-60}" \
        "$DT_SRCDIR/contrib/devcluster" run --name "$DT_CLUSTER" \
        --user root "$@"
}

# dt_srun WORD...: srun as root; without its notes about waiting in the queue,
# which come and go.
dt_srun() {
    dt_run srun --quiet "$@"
}

# dt_srun_user WORD...: srun as an ordinary user, who has no access to root's
# files: give it a directory of its own with chown dtuser on the cluster.
dt_srun_user() {
    dt_run --user dtuser srun --quiet "$@"
}
