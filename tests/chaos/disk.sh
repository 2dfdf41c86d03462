#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# disk.sh [SECONDS]: do steps go on while the disk is frozen, or full?
#
# Two ranks write to a file system in a file, which is frozen for SECONDS (10)
# by fsfreeze, and then full for as long. Prints how many steps were taken
# before, meanwhile and after, and how many warnings there were of each kind.
# Each step has to be in metrics.jsonl once, but for those that found the disk
# full, and the last checkpoint has to be whole. Needs root, loop devices and
# mpirun; DT_BUILDDIR is the build.
set -u

: "${DT_BUILDDIR:?the directory of a build}"
seconds=${1:-10}
work=$(mktemp -d /tmp/disttrain-disk.XXXXXX)
cd "$work" || exit
truncate -s 64M image && mkfs.ext4 -q -m 0 image && mkdir disk || exit
loop=$(losetup --find --show image) || exit
trap 'umount disk; losetup -d "$loop"; rm -rf "$work"' EXIT
mount "$loop" disk || exit
cat /usr/share/common-licenses/{GPL-2,LGPL-2.1} >text
cat >run.yaml <<END
algorithm: sft
run: {name: disk, output_dir: $work/disk/out}
model: {n_positions: 32, n_embd: 32, n_layer: 2, n_head: 2}
data: {train: text, max_length: 32}
training: {train_batch_size: 8, max_steps: 1000000}
checkpoint: {steps: 100, async: on, total_limit: 2, max_failures: 100000}
logging: {steps: 1}
END
export OMP_NUM_THREADS=1
failed=0

step() {
    grep -c "^step " log
}

# during WHAT COMMAND...: steps in the next seconds, after COMMAND.
during() {
    local before
    "${@:2}"
    before=$(step)
    sleep "$seconds"
    echo "$1: $(($(step) - before)) steps"
    (($(step) > before)) || failed=1
}

# shellcheck disable=SC2317,SC2329
fill() {
    cat /dev/zero >disk/full 2>/dev/null
}

mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2 \
    "$DT_BUILDDIR/disttrain" train run.yaml >log 2>&1 &
run=$!
until [[ -L disk/out/checkpoints/latest ]] || ! kill -0 "$run"; do
    sleep 0.1
done
during before true
during frozen fsfreeze --freeze disk
during thawed fsfreeze --unfreeze disk
lost=$(grep -c "disk answers again; 0 records are lost" log)
during full fill
during "with room again" rm disk/full
kill "$run"
wait "$run"
sed -n "s|$work||g"'; s/^.*warning: //p' log |
    sed 's/[0-9][0-9]* lines/N lines/; s/^step [0-9]* could.*/a save failed/' |
    sort | uniq -c
awk -F'[:,]' '$2 + 0 != last + 1 { gaps++; missing += $2 - last - 1 }
    { last = $2 + 0 }
    END { print gaps + 0, "gaps in metrics.jsonl,", missing + 0, "steps" }' \
    disk/out/logs/metrics.jsonl
[[ $lost == 1 ]] || failed=1
"$DT_BUILDDIR/disttrain" verify "$work/disk/out" || failed=1
exit $failed
