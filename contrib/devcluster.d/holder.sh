#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# holder.sh - the first process of a space: sets it up, then holds it open
#
# Usage: holder.sh NAME DIR, in the new namespaces. When the space is ready,
# prints its process id as seen from outside (its /proc is not its own yet). As
# process 1 of a node it collects orphans, which a waiting shell does. Mounts
# leave no record in /run/mount (-n), which some machines do not have.

set -e
read -r pid _ </proc/self/stat
hostname "$1"
ip link set lo up
for file in hosts passwd group; do
    mount -n --bind "$2/etc/$file" "/etc/$file"
done
if [ "$1" != head ]; then
    mount -n -t proc proc /proc
    mount -n -t tmpfs -o mode=1777 shm /dev/shm
fi
echo "$pid"
exec >/dev/null 2>&1
sleep infinity &
wait
