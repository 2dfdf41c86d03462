# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# helpers.bash - what all job tests share: one cluster per file
#
#     load helpers
#     setup_file() { dt_cluster_up --nodes 4 --cpus 2; }
#     teardown_file() { dt_cluster_down; }
#
# Each cluster has its own name, so files can run side by side. A case that
# fails leaves nothing to the next one, which gets a new cluster.

bats_require_minimum_version 1.5.0

: "${DT_SRCDIR:=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}"
: "${DT_BUILDDIR:=$DT_SRCDIR}"
export DT_SRCDIR DT_BUILDDIR
unset OMP_NUM_THREADS # nproc would print it, and tasks get it

# Two mpiruns that start or end at the same time may fail in one directory.
export OMPI_MCA_orte_tmpdir_base=${BATS_FILE_TMPDIR-} # of Open MPI 4
export PRTE_MCA_prte_tmpdir_base=${BATS_FILE_TMPDIR-} # and 5

# dt_cluster_lacks: prints why there can be no cluster here, or nothing.
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

# dt_cluster_up [OPTION]...: call it in setup_file; OPTIONs are those of
# devcluster up.
dt_cluster_up() {
    DT_SKIP=$(dt_cluster_lacks)
    export DT_SKIP DT_CLUSTER=t$$ DT_CLUSTER_OPTIONS=${*@Q}
    [[ -n $DT_SKIP ]] || dt_devcluster up "$@"
}

# A file that has its own setup calls dt_setup there.
dt_setup() {
    [[ -z $DT_SKIP ]] || skip "$DT_SKIP"
}

setup() {
    dt_setup
}

# dt_tree PID...: prints these processes and all that they have started.
dt_tree() {
    local pid
    for pid; do
        echo "$pid"
        # shellcheck disable=SC2046
        dt_tree $(pgrep -P "$pid")
    done
}

# Ends what a case that failed has left running beside itself: it would write
# where the next case does.
dt_end_background() {
    local jobs pids
    jobs=$(jobs -p)
    [[ -n $jobs ]] || return 0
    # shellcheck disable=SC2086
    mapfile -t pids < <(dt_tree $jobs)
    kill -KILL "${pids[@]}" 2>/dev/null || true
    # shellcheck disable=SC2086
    wait $jobs 2>/dev/null || true
}

# A file that has its own teardown calls dt_teardown there: after a case that
# failed or cut a node off, nothing of the old cluster is left, neither jobs nor
# routes, mounts and stopped daemons.
dt_teardown() {
    [[ -n ${BATS_TEST_COMPLETED-} ]] || dt_end_background
    if [[ -n ${BATS_TEST_COMPLETED-} && ! -e $BATS_TEST_TMPDIR/killed ]] ||
        [[ -z ${DT_CLUSTER-} || -n ${DT_SKIP-} ]]; then
        return
    fi
    dt_cluster_down
    eval "dt_devcluster up $DT_CLUSTER_OPTIONS"
}

teardown() {
    dt_teardown
}

# dt_cluster_down: call it in teardown_file.
dt_cluster_down() {
    [[ -n $DT_SKIP ]] || dt_devcluster down
}

# dt_devcluster VERB [WORD]...: runs VERB on the file's cluster.
dt_devcluster() {
    "$DT_SRCDIR/contrib/devcluster" "$1" --name "$DT_CLUSTER" "${@:2}"
}

# dt_kill NODE: cuts its power, until the end of the case.
dt_kill() {
    touch "$BATS_TEST_TMPDIR/killed"
    dt_devcluster kill "$1"
}

# dt_run [--user USER] [--node NODE] COMMAND...: runs it on the cluster, as root
# by default. After 240 s, longer than any case takes, it is ended with 124.
dt_run() {
    timeout --kill-after=5 240 \
        "$DT_SRCDIR/contrib/devcluster" run --name "$DT_CLUSTER" \
        --user root "$@"
}

# dt_srun WORD...: srun as root, without its messages about waiting in the
# queue, which do not always appear.
dt_srun() {
    dt_run srun --quiet "$@"
}

# dt_srun_user WORD...: srun as an ordinary user, who has no access to root's
# files: give the user a directory with chown dtuser on the cluster.
dt_srun_user() {
    dt_run --user dtuser srun --quiet "$@"
}

# dt_need_pmix: skips a case whose ranks meet by PMIx where Slurm was built
# without it, as in Debian forky.
dt_need_pmix() {
    local types
    # any configuration will do
    printf '%s\n' ClusterName=none SlurmctldHost=none \
        >"$BATS_TEST_TMPDIR/slurm.conf"
    types=$(SLURM_CONF=$BATS_TEST_TMPDIR/slurm.conf srun --mpi=list 2>&1) ||
        { echo "$types" && return 1; }
    grep -qw pmix <<<"$types" ||
        skip "this Slurm has no PMIx (srun --mpi=list)"
}

# dt_background LOG COMMAND [WORD]...: runs it beside the case. All its output
# goes to LOG, which is emptied first. Afterwards $! is its process.
dt_background() {
    : >"$1"
    "${@:2}" >>"$1" 2>&1 3>&- &
}

# dt_wait_for SECONDS COMMAND [WORD]...: waits until COMMAND succeeds; fails
# with a message if it does not in time. A COMMAND that takes long is tried less
# often, or it would take a processor from what it waits for.
dt_wait_for() {
    local start=${EPOCHREALTIME/./} now pause
    local end=$((start + $1 * 1000000))
    until "${@:2}"; do
        now=${EPOCHREALTIME/./}
        ((now < end)) || {
            echo "not within $1 s: ${*:2}"
            return 1
        }
        pause=$((10 * (now - start)))
        pause=$((pause < 100000 ? 100000 : pause > 1000000 ? 1000000 : pause))
        sleep "$((pause / 1000000)).$(printf %06d $((pause % 1000000)))"
        start=${EPOCHREALTIME/./}
    done
}

# dt_lines COUNT PATTERN FILE: whether at least COUNT lines of FILE match.
dt_lines() {
    (($(grep -c -e "$2" "$3") >= $1))
}
