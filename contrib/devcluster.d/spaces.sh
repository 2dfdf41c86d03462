# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# spaces.sh - creates the namespaces of a cluster's head and nodes, and their
# network
#
# A space is one computer of the cluster. A sleeping process holds it open;
# $dir/ns/NAME has that process' id and its network namespace, "PID
# net:[INODE]", which together distinguish it from any later process. All other
# processes of the space are found by the network namespace. Nothing is mounted
# or created outside the spaces, so the kernel removes everything when they end.

subnet=10.11.12

# space_pid NAME: prints the id of the holder; fails if it is gone.
space_pid() {
    local pid net
    read -r pid net <"$dir/ns/$1" &&
        [[ $(readlink "/proc/$pid/ns/net") == "$net" ]] && echo "$pid"
}

# space_options NAME: prints the options of nsenter to enter the space. --root
# matters if this machine is itself a chroot.
space_options() {
    local pid
    pid=$(space_pid "$1") || return
    echo --target "$pid" --net --mount --uts --root
    [[ $1 == head ]] || echo --ipc --pid
}

# space_run NAME COMMAND...
space_run() {
    local options
    options=$(space_options "$1") || return
    # shellcheck disable=SC2086 # options are words
    nsenter $options -- "${@:2}"
}

# space_exec NAME COMMAND...: the same, but replaces this process.
space_exec() {
    local options
    options=$(space_options "$1") || return
    # shellcheck disable=SC2086
    exec nsenter $options -- "${@:2}"
}

# space_create NAME
#
# A node has its own process ids: when process 1, the holder, is killed, the
# kernel kills all others with it. "slave" lets mounts of the machine appear in
# the space but not the other way around.
space_create() {
    local own='' pid net
    [[ $1 == head ]] || own="--ipc --pid --fork --kill-child"
    # shellcheck disable=SC2086
    if read -r pid < <(exec setsid unshare --net --mount --uts $own \
        --propagation slave "$here/devcluster.d/holder.sh" "$1" "$dir" \
        </dev/null 2>"$dir/log/$1.err") &&
        net=$(readlink "/proc/$pid/ns/net"); then
        echo "$pid $net" >"$dir/ns/$1"
    else
        echo "devcluster: cannot create namespaces for $1:" >&2
        cat "$dir/log/$1.err" >&2
        return 1
    fi
}

# spaces_pids [NAME]: prints the processes of one space or of all of them.
spaces_pids() {
    local file net match=()
    for file in "$dir"/ns/${1:-*}; do
        [[ -e $file ]] || continue
        read -r _ net <"$file"
        net=${net/\[/\\[}
        match+=(-o -lname "${net/\]/\\]}")
    done
    ((${#match[@]} == 0)) ||
        find /proc -maxdepth 3 -path '/proc/[0-9]*/ns/net' \
            \( "${match[@]:1}" \) -printf '%h\n' 2>/dev/null |
        cut -d/ -f3
}

# spaces_kill [NAME]: ends all processes of one space or of all of them.
spaces_kill() {
    local pids tries
    for ((tries = 0; tries < 200; tries++)); do
        mapfile -t pids < <(spaces_pids "$@")
        ((${#pids[@]} > 0)) || return 0
        kill -KILL "${pids[@]}" 2>/dev/null
        sleep 0.02
    done
    return 1
}

# Creates the switch on the head, with the head's own address.
head_link() {
    space_run head ip -batch - <<END
link add name switch type bridge forward_delay 0
addr add $subnet.254/24 dev switch
link set switch up
END
}

# node_link I: connects node I to the switch, at the speed of --rate.
node_link() {
    local pid
    pid=$(space_pid "n$1") &&
        space_run head ip -batch - <<END &&
link add name n$1 type veth peer name eth0 netns $pid
link set n$1 master switch up
END
        space_run "n$1" ip -batch - <<END &&
addr add $subnet.$1/24 dev eth0
link set eth0 up
END
        node_rate "$1"
}

# node_rate I: limits both directions; the bucket holds 10 ms and at least one
# large segment, which tbf would otherwise drop.
node_rate() {
    local shape
    [[ -n $rate ]] || return 0
    shape="root tbf rate $rate burst $(rate_burst) latency 50ms"
    # shellcheck disable=SC2086
    if ! { space_run head tc qdisc add dev "n$1" $shape &&
        space_run "n$1" tc qdisc add dev eth0 $shape; }; then
        echo "devcluster: --rate $rate: the kernel has no tbf" \
            "(CONFIG_NET_SCH_TBF): go without --rate" >&2
        return 1
    fi
}

# rate_burst: prints the bytes of 10 ms at --rate.
rate_burst() {
    local unit
    case $rate in
    *kbit) unit=1000 ;;
    *mbit) unit=1000000 ;;
    *gbit) unit=1000000000 ;;
    esac
    awk -v bits="${rate%?bit}" -v unit="$unit" 'BEGIN {
        burst = bits * unit / 8 / 100
        printf "%d", burst < 131072 ? 131072 : burst }'
}

# Creates the switch and the nodes, on which the daemons are then started.
nodes_create() {
    local i
    head_link || return
    for ((i = 1; i <= nodes; i++)); do
        space_create "n$i" && node_link "$i" || return
    done
}
