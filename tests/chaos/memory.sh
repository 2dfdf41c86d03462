#!/bin/bash
# shellcheck disable=SC2016
# SPDX-License-Identifier: Apache-2.0
# memory.sh - does a run survive that the kernel kills a rank for its memory?
#
# A node of a devcluster gets a control group of its own with a limit, of
# version 1 or 2. There another program takes what is left until the kernel has
# killed a rank: losses have to be those of the undisturbed run. Another one
# takes it for good: the run has to end, and to say why. Needs root and Slurm;
# DT_BUILDDIR is the build.
set -u

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d /tmp/disttrain-memory.XXXXXX)
cluster=mem$$
devcluster() {
    DT_BUILDDIR=${DT_BUILDDIR:-$here/../..} \
        "$here/../../contrib/devcluster" "$1" --name "$cluster" "${@:2}"
}
group=/sys/fs/cgroup
if [[ -d $group/memory ]]; then
    group=$group/memory/$cluster
    limit=memory.limit_in_bytes kills=memory.oom_control none=-1
    taken='/^(total_rss|total_shmem) / { sum += $2 } END { printf "%d", sum }'
else
    group=$group/$cluster
    limit=memory.max kills=memory.events none=max
    taken='/^(anon|shmem) / { sum += $2 } END { printf "%d", sum }'
fi
trap 'devcluster down; rmdir "$group"; rm -rf "$work"' EXIT
mkdir "$group" || exit
devcluster up --nodes 2 --cpus 2 >/dev/null || exit
cd "$work" || exit
cat /usr/share/common-licenses/{GPL-2,LGPL-2.1} >text
export OMP_NUM_THREADS=1
failed=0

# The daemon of n2, and with it all tasks there, is in the group from now on.
for pid in $(pgrep -x slurmd); do
    tr '\0' '\n' <"/proc/$pid/environ" | grep -q "SLURM_CONF=.*/$cluster/" &&
        nsenter --target "$pid" --uts hostname | grep -qx n2 &&
        echo "$pid" >"$group/cgroup.procs"
done

config() {
    cat >"$1.yaml" <<END
algorithm: sft
run: {name: $1, output_dir: $1.out, overwrite: true}
model: {n_positions: 32, n_embd: 64, n_layer: 2, n_head: 2}
data: {train: text, max_length: 32}
training: {train_batch_size: 8, max_steps: 3000}
distributed: {strategy: ddp}
checkpoint: {strategy: "no"}
logging: {steps: 1}
END
}

train() {
    devcluster run --user root timeout 120 srun --quiet -N2 \
        --ntasks-per-node=2 --overcommit --disttrain="$1.yaml" >"$1.log" 2>&1
}

losses() {
    sed -n 's/.*"split": "train".*"loss": \([-+.e0-9]*\).*/\1/p' \
        "$1.out/logs/metrics.jsonl"
}

count_kills() {
    awk '$1 == "oom_kill" { print $2 }' "$group/$kills"
}

# take BYTES: takes memory, as long as there is somebody else to be killed.
take() {
    exec sh -c "echo \$\$ >$group/cgroup.procs
        exec dd if=/dev/zero of=/dev/null bs=$1"
} 2>/dev/null

# disturb NAME once|always: trains NAME, and takes more memory than there is,
# until the kernel has killed a rank, or until the run has ended.
disturb() {
    local before srun pid='' room=$((16 << 20))
    before=$(count_kills)
    train "$1" &
    srun=$!
    until grep -qs "^step 100/" "$1.log" || ! kill -0 "$srun"; do
        sleep 0.1
    done
    echo $(($(awk "$taken" "$group/memory.stat") + room)) >"$group/$limit"
    while kill -0 "$srun" && [[ $2 == always || $(count_kills) == "$before" ]]; do
        kill -0 "$pid" || { take $((4 * room)) & pid=$!; }
        sleep 0.01
    done 2>/dev/null
    kill "$pid"
    wait "$pid"
    echo "$none" >"$group/$limit"
    wait "$srun"
}

expect() { # expect NAME TEXT
    if grep -q "$2" "$1.log"; then
        grep -o "$2.*" "$1.log" | head -n 1
    else
        failed=1
        echo "$1: it does not say: $2"
        tail -n 20 "$1.log"
    fi
}

config whole
config hit
train whole || { tail whole.log && exit 1; }
disturb hit once || failed=1
expect hit "rank [23] on n2 was killed because memory ran out after step"
cmp <(losses whole) <(losses hit) && echo "losses are the same" || failed=1

config short
disturb short always && failed=1
expect short "killed because memory ran out.*twice at the same step"
exit $failed
