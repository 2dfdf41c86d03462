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
printf '%s\n' DISTTRAIN_CONTRACT=2 RUNS=nothing CONFIG=$WORK/c.yaml
[ -z "\$VANISH" ] || mv "\$0" "\$0.gone"
[ -z "\$SETTINGS" ] || printf 'SRUN %s\n' \$SETTINGS
END
    chmod 755 "$WORK/disttrain"
    touch "$WORK/c.yaml"
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
}

# train WORD...: runs srun with 8 ranks on 4 nodes; its output is in out and
# err.
train() {
    local status=0
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
