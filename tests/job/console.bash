# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# console.bash - what the tests of the console share: a runtime of their own,
# which says what $SETTINGS says and goes away if $VANISH is set, and a step

# console_up [OPTION]...: call it in setup_file; OPTIONs are those of devcluster
# up.
console_up() {
    WORK=$(mktemp -d /tmp/disttrain-console.XXXXXX)
    export WORK
    chmod 755 "$WORK"
    cat >"$WORK/disttrain" <<END
#!/bin/sh
[ "\$1" != console ] || exec \${CONSOLE:-"$DT_BUILDDIR/disttrain"} "\$@"
printf '%s\n' DISTTRAIN_CONTRACT=3 RUNS=nothing CONFIG=$WORK/c.yaml
[ -z "\$VANISH" ] || mv "\$0" "\$0.gone"
[ -z "\$SETTINGS" ] || printf 'SRUN %s\n' \$SETTINGS
END
    chmod 755 "$WORK/disttrain"
    touch "$WORK/c.yaml"
    cat >"$WORK/all_here" <<'END'
#!/bin/sh
# all_here RANK: in each rank of train; RANK waits there for the other 7. Those
# that start after it has failed would not be ended, or not be counted.
touch "here.$RANK"
until [ "$RANK" != "$1" ] || [ "$(ls here.* | wc -l)" = 8 ]; do
    sleep 0.1
done
END
    chmod 755 "$WORK/all_here"
    dt_cluster_up --nodes 4 --cpus 8 --runtime "$WORK/disttrain" \
        --conf KillWait=2 "$@"
}

teardown_file() {
    dt_cluster_down
    rm -rf "$WORK"
}

setup() {
    dt_setup
    cd "$WORK" || return
    [[ ! -e disttrain.gone ]] || mv disttrain.gone disttrain
}

# train WORD...: runs srun with 8 ranks on 4 nodes; its output is in out and
# err.
train() {
    local status=0
    rm -f here.*
    dt_srun --disttrain=c.yaml -N4 -n8 --ntasks-per-node=2 "$@" \
        >out 2>err || status=$?
    cat out err
    return "$status"
}

# report: the end of err, from the first failure on, without the times.
report() {
    sed -n '/^disttrain: first failure/,$p' err |
        sed -E 's/[0-9]+\.[0-9] (s|to)/T \1/g'
}

# write_meet: writes meet.py, a program in which all ranks connect to rank 0;
# those on the nodes that it is given only after the console has missed them.
write_meet() {
    command -v python3 >/dev/null || skip "python3 is not installed"
    cat >meet.py <<'END'
import glob, os, socket, sys, time
port = int(os.environ["MASTER_PORT"])
late = os.environ["SLURMD_NODENAME"] in sys.argv[1:]
def wait_for(condition):
    while not condition():
        time.sleep(0.05)
def said(text):
    return text in open("err").read()
def is_met():
    try:
        peers.append(socket.create_connection((os.environ["MASTER_ADDR"], port)))
    except OSError:
        pass
    return peers
open("ready." + os.environ["RANK"], "w")
wait_for(lambda: len(glob.glob("ready.*")) == 8)
peers = []
if os.environ["RANK"] == "0":
    server = socket.create_server(("", port))
    while len(peers) < 7:
        peers.append(server.accept())
    if len(sys.argv) > 1:
        wait_for(lambda: said("all nodes have connected"))
    else:
        time.sleep(8)
    open("met", "w")
else:
    if late:
        wait_for(lambda: said("nobody on"))
    wait_for(is_met)
    wait_for(lambda: os.path.exists("met"))
END
}

# nobody_watches: whether the process has ended that watches rank 0's port.
nobody_watches() {
    run dt_run --node n1 pgrep -f "disttrain console --watch"
    ((status == 1))
}
