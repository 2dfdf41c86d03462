# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# slurm.sh - writes the configuration and starts the daemons of a cluster

# lend_etc: spaces mount their own over these files, which a bare system need
# not have: makes an empty one, which the last cluster removes.
lend_etc() {
    local file
    for file in /etc/{hosts,passwd,group}; do
        [[ -e $file ]] ||
            { echo "$file" >>"$top.lent" && : >"$file"; } || return
    done
}

# Writes the accounts of this machine and one more that exists only in the
# cluster.
write_etc() {
    local uid=60900 i
    mkdir -p "$dir/home" && chown "$uid:$uid" "$dir/home" || return
    cat /etc/passwd - >"$dir/etc/passwd" <<END
dtuser:x:$uid:$uid:devcluster:$dir/home:/bin/sh
END
    cat /etc/group - >"$dir/etc/group" <<END
dtuser:x:$uid:
END
    {
        echo 127.0.0.1 localhost
        echo "$subnet.254 head"
        for ((i = 1; i <= nodes; i++)); do
            echo "$subnet.$i n$i"
        done
    } >"$dir/etc/hosts"
}

# slurm_conf: prints slurm.conf without the changes of --conf. Plugins whose
# name differs between releases are left to their default. With CompleteWait, a
# job gets the nodes of the previous job instead of others because those are not
# released yet. cred_expire is how long a requeued job waits, and how late a node
# of a busy machine may start a task.
slurm_conf() {
    local memory gres='' i
    ((gpus == 0)) || gres=Gres=gpu:$gpus
    memory=$(awk '/^MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
    cat <<END
ClusterName=$name
SlurmctldHost=head($subnet.254)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket,cred_expire=10
StateSaveLocation=$dir/ctl
SlurmctldPidFile=$dir/ctl/pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdPidFile=$dir/node/%n/pid
SlurmdSpoolDir=$dir/node/%n/spool
SlurmdLogFile=$dir/log/%n.log
TmpFS=$dir/node/%n/tmp
PlugStackConfig=$dir/conf/plugstack.conf
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
SlurmdTimeout=10
MessageTimeout=5
KillWait=5
CompleteWait=10
GresTypes=gpu
NodeName=DEFAULT Sockets=1 CoresPerSocket=$cpus RealMemory=$memory $gres
END
    for ((i = 1; i <= nodes; i++)); do
        echo "NodeName=n$i NodeAddr=$subnet.$i"
    done
    echo "PartitionName=main Nodes=ALL Default=YES"
}

# Prints slurm.conf with the lines of --conf replacing ours.
slurm_conf_changed() {
    local line
    slurm_conf | awk -v changed="$(printf '%s\n' "${conf[@]%%=*}")" '
        BEGIN {
            split(tolower(changed), list, "\n")
            for (i in list)
                drop[list[i]]
        }
        !(tolower(substr($0, 1, index($0, "=") - 1)) in drop)'
    for line in "${conf[@]}"; do
        [[ $line == *= ]] || echo "$line"
    done
}

# No release may use cgroups, which containers and chroots do not have. Before
# 24.05 the v1 plugin is loaded, but nothing here uses it.
cgroup_conf() {
    local version
    version=$(slurmctld -V | sed 's/^[^0-9]*\([0-9]*\)\.\([0-9]*\).*/\1\2/')
    if ((version >= 2405)); then
        echo CgroupPlugin=disabled
    else
        echo CgroupPlugin=cgroup/v1
    fi
}

write_conf() {
    local i
    slurm_conf_changed >"$dir/conf/slurm.conf"
    cgroup_conf >"$dir/conf/cgroup.conf"
    for ((i = 0; i < gpus; i++)); do
        mknod "$dir/dev/gpu$i" c 1 3
        echo "Name=gpu File=$dir/dev/gpu$i" >>"$dir/conf/gres.conf"
    done
    {
        ((${#plugstack[@]} == 0)) || printf '%s\n' "${plugstack[@]}"
        [[ -z $plugin ]] || echo "required $plugin${runtime:+ runtime=$runtime}"
    } >"$dir/conf/plugstack.conf"
    echo "$runtime" >"$dir/conf/runtime"
    for ((i = 1; i <= nodes; i++)); do
        mkdir -p "$dir/node/n$i/"{spool,tmp}
        chmod 1777 "$dir/node/n$i/tmp"
    done
    (umask 077 && head -c 128 /dev/urandom >"$dir/munge/key")
}

# daemon_start SPACE NAME COMMAND...: stores its process id in daemon_pid. The
# current directory may not be reachable in a space of a chroot, of which steps
# of Slurm 22.05 complain.
daemon_start() {
    local options
    options=$(space_options "$1")
    # shellcheck disable=SC2086
    SLURM_CONF=$dir/conf/slurm.conf setsid nsenter $options -- \
        env --chdir=/ "${@:3}" >>"$dir/log/$2.err" 2>&1 </dev/null &
    daemon_pid[$2]=$!
    disown
}

# daemon_wait NAME COMMAND...: waits until COMMAND succeeds; fails, and says
# why, when the daemon has ended or after 120 s: slurmds of many nodes that start
# together on a busy machine take long.
daemon_wait() {
    local deadline=$((SECONDS + 120)) trouble=''
    until "${@:2}" >/dev/null 2>&1; do
        if ! kill -0 "${daemon_pid[$1]}" 2>/dev/null; then
            trouble=ended
        elif ((SECONDS >= deadline)); then
            trouble="is not ready after 120 s"
        fi
        [[ -z $trouble ]] || {
            echo "devcluster: $1 $trouble; the end of its log:" >&2
            tail -n 12 "$dir/log/$1.err" | sed 's/^/    /' >&2
            return 1
        }
        sleep 0.05
    done
}

node_is_idle() {
    [[ $(head_run sinfo --noheader --nodes="$1" --format=%T) == idle ]]
}

# head_run COMMAND...: runs a Slurm command as root on the head.
head_run() {
    SLURM_CONF=$dir/conf/slurm.conf space_run head timeout 10 "$@"
}

# node_cpus I: prints the CPUs of this machine that node I may use: as many as
# Slurm assigns to it, and none of another node's while there are enough.
node_cpus() {
    awk -v first=$((($1 - 1) * cpus)) -v count="$cpus" '
        /^Cpus_allowed_list/ {
            ranges = split($2, range, ",")
            for (i = 1; i <= ranges; i++) {
                ends = split(range[i], end, "-")
                for (cpu = end[1]; cpu <= end[ends]; cpu++)
                    real[n++] = cpu
            }
            for (i = 0; i < count; i++)
                printf "%s%d", i ? "," : "", real[(first + i) % n]
        }' /proc/self/status
}

# slurmd_start I: starts the daemon of node I.
slurmd_start() {
    daemon_start "n$1" "n$1" taskset --cpu-list "$(node_cpus "$1")" slurmd -D
}

declare -A daemon_pid=()

daemons_start() {
    local i
    daemon_start head munged munged --foreground --key-file="$dir/munge/key" \
        --socket="$dir/munge/socket" --pid-file="$dir/munge/pid" \
        --seed-file="$dir/munge/seed"
    daemon_wait munged munge --no-input --socket="$dir/munge/socket" || return
    daemon_start head slurmctld slurmctld -D
    daemon_wait slurmctld head_run scontrol ping || return
    for ((i = 1; i <= nodes; i++)); do
        slurmd_start "$i"
    done
    for ((i = 1; i <= nodes; i++)); do
        daemon_wait "n$i" node_is_idle "n$i" || return
    done
}
