#!/usr/bin/env bats
# shellcheck disable=SC2016
# SPDX-License-Identifier: Apache-2.0
# doctor.bats - disttrain doctor finds the nodes that break runs

load helpers

setup_file() {
    dt_cluster_up --nodes 4 --cpus 1 --gpus 1
}

teardown_file() {
    dt_cluster_down
}

# The files of a test, readable by all nodes and both users.
setup() {
    dt_setup
    dir=$(mktemp -d)
    chmod 1777 "$dir"
}

teardown() {
    rm -rf "$dir"
    dt_teardown
}

# running NAME: whether the job of that name runs; stores its id in job.
running() {
    job=$(dt_run squeue --noheader --name="$1" --states=R --format=%A)
    [[ -n $job ]]
}

has_step() {
    [[ -n $(dt_run squeue --noheader --steps="$1") ]]
}

# doctor NODES WORD...: runs it in a new allocation.
doctor() {
    dt_run salloc --quiet -N"$1" disttrain doctor "${@:2}"
}

@test "four good nodes: a table and exit status 0" {
    run -0 --separate-stderr doctor 4
    echo "$output"
    [[ ${lines[0]} == node\ *\ peers\ *\ clock\ *\ result ]]
    for i in 1 2 3 4; do
        [[ ${lines[i]} == n$i\ *\ 3/3\ *\ ms\ * ]]
        [[ ${lines[i]} == *ok || ${lines[i]} == *warning ]]
    done
    [[ ${lines[5]} == "the same everywhere: interface eth0, disttrain "* ]]
    [[ ${lines[5]} == *", slurm "* ]]
    [[ ${lines[-1]} == "4 nodes are good, "* ]]
    [[ -z $stderr ]]
}

@test "--brief says one line about good nodes" {
    run -0 doctor 2 --brief
    [[ ${lines[-1]} == "2 nodes are good, "*" warning"* ]]
    # this machine may be busy
    [[ $(grep -vc ": warning: " <<<"$output") == 1 ]]
}

@test "in a step, its first task examines the step's nodes" {
    run -0 dt_srun -N2 --ntasks=4 --overcommit disttrain doctor
    [[ ${lines[1]} == n1\ * && ${lines[2]} == n2\ * ]]
    [[ $output != *n3* ]]
    [[ $(grep -c '^node' <<<"$output") == 1 ]]
}

@test "the batch script of an ordinary user examines all nodes of the job" {
    run -0 dt_run --user dtuser sbatch --wait --quiet -N3 \
        --output="$dir/out" --wrap "disttrain doctor"
    run -0 cat "$dir/out"
    [[ ${lines[-1]} == "3 nodes are good, "* ]]
}

@test "nodes that do not reach each other are named, with the reason" {
    dt_run --node n1 ip route add blackhole 10.11.12.3
    run -69 doctor 4
    dt_run --node n1 ip route del blackhole 10.11.12.3
    echo "$output"
    [[ $output == *$'\nn1 -> n3: no route to 10.11.12.3\n'* ]]
    [[ $output == *$'\nn3 -> n1: no answer from 10.11.12.1: is there'* ]]
    [[ ${lines[-1]} == "bad nodes: n1,n3" ]]
}

@test "a node that reaches nobody is the only bad one" {
    for i in 2 3 4; do
        dt_run --node n1 ip route add blackhole "10.11.12.$i"
    done
    run -69 doctor 4
    for i in 2 3 4; do
        dt_run --node n1 ip route del blackhole "10.11.12.$i"
    done
    echo "$output"
    [[ $output == *$'\nn1 -> n2: no route to 10.11.12.2\n'* ]]
    [[ $output == *$'\nn2,n3,n4 -> n1: no answer from 10.11.12.1: is there'* ]]
    [[ ${lines[-1]} == "bad nodes: n1" ]]
}

@test "a full file system is bad on its node" {
    mkdir "$dir/tmp"
    dt_run --node n2 mount -t tmpfs -o size=64k tmpfs "$dir/tmp"
    dt_run --node n2 dd if=/dev/zero of="$dir/tmp/file" bs=4k count=99 || true
    TMPDIR=$dir/tmp run -69 doctor 2
    dt_run --node n2 umount "$dir/tmp"
    echo "$output"
    [[ $output == *$'\n'"n2: $dir/tmp is full: remove files there"* ]]
    [[ ${lines[-1]} == "bad nodes: n2" ]]
}

@test "a node whose name resolves to loopback is bad" {
    dt_run --node n2 sh -c "sed 's/^.* n2$/127.0.1.1 n2/' /etc/hosts \
        >$dir/hosts && mount --bind $dir/hosts /etc/hosts"
    run -69 doctor 2
    dt_run --node n2 umount /etc/hosts
    echo "$output"
    [[ $output == *$'\n'"n2: its own name resolves to 127.0.1.1 there, where \
no other node reaches it: correct /etc/hosts"* ]]
    [[ ${lines[-1]} == "bad nodes: n2" ]]
    [[ ${lines[1]} == n1\ *\ 1/1\ * ]]
}

@test "stale shared memory of the user is a warning that says what to do" {
    dt_run --user dtuser --node n1 sh -c 'echo x >/dev/shm/torch_left'
    dt_run --user dtuser --node n1 sh -c 'echo x >/dev/shm/torch_used'
    dt_run --user dtuser --node n1 sh -c \
        "exec 4</dev/shm/torch_used; touch $dir/up; exec sleep 200" 3>&- &
    dt_wait_for 40 test -e "$dir/up"
    run -0 dt_run --user dtuser salloc --quiet -N2 disttrain doctor
    dt_run --node n1 pkill -u dtuser sleep
    dt_run --node n1 rm /dev/shm/torch_left /dev/shm/torch_used
    echo "$output"
    [[ $output == *$'\n'"n1: warning: /dev/shm has 1 file of yours (2 B) that \
no process uses: rm /dev/shm/torch_left"* ]]
    [[ ${lines[-1]} == "2 nodes are good, "* ]]
}

@test "a process that no job owns is a warning" {
    dt_run --user dtuser --node n2 setsid perl -MSocket -e '
        socket(S, PF_INET, SOCK_STREAM, 0) && listen(S, 1) || die;
        open(F, ">", $ARGV[0]) || die;
        sleep(200)' "$dir/up" 3>&- &
    dt_wait_for 40 test -e "$dir/up"
    run -0 dt_run --user dtuser salloc --quiet -N2 disttrain doctor
    dt_run --user dtuser --node n2 pkill -u dtuser perl
    echo "$output"
    [[ $output =~ "n2: warning: your process "[0-9]+" (perl) is in no running \
job and listens on a port: kill "[0-9]+ ]]
}

@test "a GPU that Slurm counts and the kernel lacks is bad" {
    [[ ! -e /proc/driver/nvidia ]] || skip "this machine has a driver"
    run -69 dt_run salloc --quiet -N2 --gpus-per-node=1 disttrain doctor
    echo "$output"
    [[ $output == *$'\n'"n1,n2: Slurm gives the job GPUs there, but no NVIDIA \
driver is loaded"* ]]
    [[ ${lines[-1]} == "bad nodes: n1,n2" ]]
}

@test "mistakes on the command line are explained" {
    run -64 disttrain_here --job
    [[ $output == "disttrain doctor: '--job' needs a value "* ]]
    run -64 disttrain_here --all
    [[ $output == "disttrain doctor: unknown option '--all' "* ]]
    run -64 disttrain_here n1
    [[ $output == "disttrain doctor: unexpected 'n1' "* ]]
    run -64 disttrain_here --job=n1
    [[ $output == "disttrain doctor: --job: expected ID or ID.STEP, got 'n1' "* \
        ]]
    run -76 disttrain_here --probe </dev/null
    [[ $output == *"stdin ended before \"go\"; --probe is not for people" ]]
}

disttrain_here() {
    "$DT_BUILDDIR/disttrain" doctor "$@"
}

@test "--job examines a job from outside, or one step of it" {
    dt_run --user dtuser salloc --quiet -K --job-name=held -N3 sh -c \
        'srun --quiet -N2 sleep 200; true' 3>&- &
    local job
    dt_wait_for 40 running held
    dt_wait_for 40 has_step "$job.0"
    run -0 dt_run --user dtuser disttrain doctor --job="$job"
    [[ ${lines[-1]} == "3 nodes are good, "* ]]
    # as an srun in a task of another job would do
    run -0 dt_run --user dtuser env SLURM_PROCID=3 \
        disttrain doctor --job="$job.0" --brief
    [[ ${lines[-1]} == "2 nodes are good, "* ]]
    dt_run scancel "$job"
    wait "$!" || true
    run -69 dt_run disttrain doctor --job=999
    [[ $output == "disttrain doctor: squeue: exit status 1" ||
        $output == "disttrain doctor: job 999 has no nodes" ]]
}

@test "if srun cannot start in the job, no node is blamed" {
    dt_run salloc --quiet -K -N1 --job-name=rootsown sleep 200 3>&- &
    local job
    dt_wait_for 40 running rootsown
    run -69 dt_run --user dtuser disttrain doctor --job="$job"
    echo "$output"
    [[ $output == "srun: error: "*$'\n'"disttrain doctor: no node answers: \
see srun's message above, or slurmd's log on the nodes" ]]
    dt_run scancel "$job"
    wait "$!" || true
}

# preflight_file: writes a config that asks for a preflight.
preflight_file() {
    echo "launch: {preflight: true}" >"$dir/run.yaml"
}

@test "launch.preflight: one line for good nodes, and the tasks run" {
    preflight_file
    run -0 --separate-stderr dt_srun -N2 --ntasks-per-node=1 \
        --disttrain="$dir/run.yaml" hostname
    [[ $(sort <<<"$output") == $'n1\nn2' ]]
    [[ $(grep -v ": warning: " <<<"$stderr") == "2 nodes are good, "*" warning"* ]]
}

queue_is_empty() {
    [[ -z $(dt_run squeue --noheader) ]]
}

@test "launch.preflight: with a bad node no task runs, nothing stays behind" {
    preflight_file
    dt_run --node n3 ip route add blackhole 10.11.12.4
    run -1 dt_srun -w n3,n4 --ntasks-per-node=1 \
        --disttrain="$dir/run.yaml" touch "$dir/ran"
    dt_run --node n3 ip route del blackhole 10.11.12.4
    echo "$output"
    [[ $output == *$'\n'"bad nodes: n3,n4"$'\n'* ]]
    [[ $output == *"disttrain: preflight: no task is started: a node is not \
fit"* ]]
    [[ ! -e $dir/ran ]]
    dt_wait_for 100 queue_is_empty # a job that has ended is shown for a while
}

@test "launch.preflight: a batch script continues with the exit status" {
    preflight_file
    dt_run --node n3 ip route add blackhole 10.11.12.4
    run -0 dt_run sbatch --wait --quiet -w n2,n3,n4 --output="$dir/out" --wrap "
        srun --quiet --ntasks-per-node=1 -N3 --disttrain=$dir/run.yaml \
            touch $dir/ran
        echo status \$?
        squeue --noheader --steps --format=%i
        srun --quiet -N3 hostname"
    dt_run --node n3 ip route del blackhole 10.11.12.4
    run -0 cat "$dir/out"
    echo "$output"
    [[ $output == *$'\nbad nodes: n3,n4\n'* ]]
    [[ $output == *$'\nstatus 1\n'*.batch$'\nn'[234]$'\nn'[234]$'\nn'[234] ]]
    [[ ! -e $dir/ran ]]
}

# plugin_doctor USER LINE: runs it with LINE as plugstack.conf.
plugin_doctor() {
    # shellcheck disable=SC2016 # for the inner shell
    dt_run sh -c 'sed "s|^PlugStackConfig=.*|PlugStackConfig=$0/plugstack.conf|
        " "$SLURM_CONF" >"$0/slurm.conf"' "$dir"
    echo "$2" >"$dir/plugstack.conf"
    dt_run --user "$1" env SLURM_CONF="$dir/slurm.conf" \
        disttrain doctor --plugin
}

@test "--plugin: all is well" {
    run -0 dt_run disttrain doctor --plugin
    echo "$output"
    [[ $output == *$'\nok: '*/spank_disttrain.so" is for Slurm "* ]]
    [[ $output == *$'\nok: the program '*" is disttrain "* ]]
    [[ ${lines[-1]} == "verdict: srun shows --disttrain" ]]
}

@test "--plugin: srun without the plugin, and with one it cannot load" {
    local plugin=$DT_BUILDDIR/spank/.libs/spank_disttrain.so
    local runtime=runtime=$DT_BUILDDIR/disttrain
    run -78 plugin_doctor root "# nothing"
    [[ $output == *"wrong: no line of $dir/plugstack.conf, "* ]]
    [[ $output == *"ok: srun --help works, and does not have --disttrain"* ]]
    run -78 plugin_doctor root "required /no/spank_disttrain.so"
    [[ $output == *"wrong: /no/spank_disttrain.so: No such file"* ]]
    run -78 plugin_doctor root "required spank_disttrain.so"
    [[ $output =~ wrong:\ spank_disttrain.so\ is\ not\ in\ PluginDir=/[^:]*: ]]
    sed 's/for Slurm 0x..../for Slurm 0x0102/' "$plugin" \
        >"$dir/spank_disttrain.so"
    run -78 plugin_doctor root "optional $dir/spank_disttrain.so $runtime"
    [[ $output == *"was built for Slurm 1.02, and this is 2"* ]]
    cp "$plugin" "$dir"
    chmod 600 "$dir/spank_disttrain.so"
    run -78 plugin_doctor dtuser "optional $dir/spank_disttrain.so $runtime"
    [[ $output == *"wrong: $dir/spank_disttrain.so: Permission denied"* ]]
    [[ ${lines[-1]} == "verdict: srun does not show --disttrain, because"* ]]
    chmod 644 "$dir/spank_disttrain.so"
    run -0 plugin_doctor dtuser "optional $dir/spank_disttrain.so $runtime"
    run -78 plugin_doctor dtuser "optional $dir/spank_disttrain.so runtime=/no"
    [[ ${lines[-1]} == "verdict: srun shows --disttrain, which will not work"* \
        ]]
}

@test "nodes that do not answer are named, and the others are examined" {
    # shellcheck disable=SC2016 # for the inner shell
    dt_run salloc --quiet -N4 sh -c \
        'touch "$0/up"; while [ ! -e "$0/killed" ]; do sleep 0.1; done
         disttrain doctor; echo "status $?"' "$dir" >"$dir/out" 2>&1 3>&- &
    dt_wait_for 40 test -e "$dir/up"
    # the first one and the last one
    dt_kill n1
    dt_kill n4
    touch "$dir/killed"
    wait "$!" || true
    cat "$dir/out"
    run -0 cat "$dir/out"
    [[ $output == *"n1,n4: no answer: see scontrol show node, and slurmd's log"* ]]
    [[ $output == *$'\n'"n2 "*" 1/1 "*$'\n'"n3 "*" 1/1 "* ]]
    [[ $output == *$'\nbad nodes: n1,n4\nstatus 69'* ]]
}
