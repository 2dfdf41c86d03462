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
nets=() # of the spaces that spaces_hold has opened

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

# spaces_hold [NAME]: opens the networks of one space, or of all, that is on, and
# leaves "net:[INODE]" of each in nets. The kernel gives the number of a network
# that has ended to the next one, of whatever cluster; of one that is open it does
# not.
spaces_hold() {
    local file fd net pid
    nets=()
    for file in "$dir"/ns/${1:-*}; do
        if [[ ! -e $file ]] || ! pid=$(space_pid "${file##*/}"); then
            continue
        fi
        { exec {fd}<"/proc/$pid/ns/net"; } 2>/dev/null || continue
        read -r _ net <"$file"
        [[ $(readlink "/proc/$$/fd/$fd") != "$net" ]] || nets+=("$net")
    done
}

# spaces_pids: prints the processes of the spaces that are held.
spaces_pids() {
    local net match=()
    for net in "${nets[@]}"; do
        net=${net/\[/\\[}
        match+=(-o -lname "${net/\]/\\]}")
    done
    ((${#match[@]} == 0)) ||
        find /proc -maxdepth 3 -path '/proc/[0-9]*/ns/net' \
            \( "${match[@]:1}" \) -printf '%h\n' 2>/dev/null |
        cut -d/ -f3
}

# spaces_kill [NAME]: ends all processes of one space or of all of them. The holder
# of the head is the last: without it nobody would know of the others.
spaces_kill() {
    local head pids tries
    head=$(space_pid head 2>/dev/null)
    spaces_hold "$@"
    for ((tries = 0; tries < 200; tries++)); do
        mapfile -t pids < <(spaces_pids | grep -vx "$head")
        ((${#pids[@]} > 0)) || mapfile -t pids < <(spaces_pids)
        ((${#pids[@]} > 0)) || return 0
        kill -KILL "${pids[@]}" 2>/dev/null
        sleep 0.02
    done
    return 1
}

# The network is a star: the head routes between the nodes, each of which has a
# link to the head alone. On one Ethernet, every node would keep an entry for
# each node that it talks to, and the kernel has one table of them for all
# spaces (net.ipv4.neigh.default.gc_thresh3): 32 nodes that all talk to each
# other fill it. Here a link has one entry at each end. It is permanent, so that
# it neither expires nor counts.

# mac SIDE I: prints the address of one end of node I's link.
mac() {
    case $1 in
    node) printf '02:00:0a:0b:0c:%02x' "$2" ;;
    head) printf '02:00:0a:0b:0d:%02x' "$2" ;;
    esac
}

# Makes the head a router. What is for a node that is off ends in a bridge
# without ports, in silence, as a switch would send it to a dead port.
head_link() {
    space_run head ip -batch - <<END || return
link add name switch type bridge
link set switch arp off
addr add $subnet.254/24 dev switch
link set switch up
END
    # no shell, which may complain that it cannot reach the current directory
    space_run head tee /proc/sys/net/ipv4/ip_forward <<<1 >/dev/null
}

# node_link I: connects node I to the head, at the speed of --rate.
node_link() {
    local pid
    pid=$(space_pid "n$1") &&
        space_run head ip -batch - <<END &&
link add name n$1 address $(mac head "$1") type veth \
    peer name eth0 address $(mac node "$1") netns $pid
link set n$1 up
neigh add $subnet.$1 lladdr $(mac node "$1") dev n$1 nud permanent
route add $subnet.$1 dev n$1 src $subnet.254
END
        space_run "n$1" ip -batch - <<END &&
addr add $subnet.$1 peer $subnet.254 dev eth0
link set eth0 up
neigh add $subnet.254 lladdr $(mac head "$1") dev eth0 nud permanent
route add $subnet.0/24 via $subnet.254
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

# Creates the router and the nodes, on which the daemons are then started.
nodes_create() {
    local i
    head_link || return
    for ((i = 1; i <= nodes; i++)); do
        space_create "n$i" && node_link "$i" || return
    done
}
