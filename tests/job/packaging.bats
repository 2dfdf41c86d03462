#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154
# SPDX-License-Identifier: Apache-2.0
# packaging.bats - what is installed works and can be removed; deb, rpm, by hand

bats_require_minimum_version 1.5.0

load helpers

# Makes a tree as in a release, in which both packages are built.
setup_file() {
    DT_SKIP=$(dt_cluster_lacks)
    WORK=$(mktemp -d /tmp/disttrain-packaging.XXXXXX)
    VERSION=$("$DT_BUILDDIR/disttrain" --version)
    VERSION=${VERSION#disttrain }
    TREE=$WORK/disttrain-$VERSION
    export DT_SKIP DT_CLUSTER=p$$ WORK VERSION TREE
    make -s -C "$DT_BUILDDIR" distdir distdir="$TREE" >/dev/null
    chmod -R u+w "$TREE" # the source may be read-only, as in distcheck
}

teardown_file() {
    rm -rf "$WORK"
}

setup() {
    cd "$WORK" || return
}

teardown() {
    [[ ! -d /run/disttrain-devcluster/$DT_CLUSTER ]] || dt_devcluster down
}

# files DIR: prints every file and link below it.
files() {
    (cd "$1" && find . ! -type d -print | sort)
}

# missing_links PAGE: prints targets of links in it, and in pages below, that
# are not there.
missing_links() {
    local page target
    while read -r page; do
        grep -oE '\]\([^)]*\)' "$page" | sed 's/^](//; s/)$//; s/#.*//' |
            grep -vE '^$|^https?://' | while read -r target; do
            [[ -e ${page%/*}/$target ]] || echo "$page: $target"
        done
    done < <(find "${1%/*}" -name '*.md')
}

# hardened FILE: it searches libraries only in the usual directories, and
# resolves all symbols at start.
hardened() {
    readelf --wide --program-headers --dynamic "$1" >headers
    grep -q GNU_RELRO headers && grep -q BIND_NOW headers &&
        ! grep -E 'R(UN)?PATH' headers
}

# stripped FILE
stripped() {
    ! readelf --wide --sections "$1" | grep -F .symtab
}

need() {
    command -v "$1" >/dev/null || skip "$1 is not installed"
}

# Builds the Debian packages once, for all tests that need them.
need_debs() {
    need dh
    [[ -e debs ]] || skip "the packages could not be built"
}

# slurm_series [N]: prints a series such as 22.05, N months later.
slurm_series() {
    local version year month
    version=$(dpkg-query --show --showformat='${Version}' libslurm-dev)
    IFS=. read -r year month _ <<<"$version"
    printf '%s.%02d\n' "$year" $((10#$month + ${1:-0}))
}

plugin_deb() {
    echo "slurm-wlm-disttrain-plugin_${VERSION}_$(dpkg --print-architecture).deb"
}

runtime_deb() {
    echo "disttrain_${VERSION}_$(dpkg --print-architecture).deb"
}

# deb_root COMMAND...: runs dpkg on a separate system, where nothing else is
# installed and no package can ask for a shell.
deb_root() {
    dpkg --root="$WORK/root" --force-depends --force-not-root \
        --force-script-chrootless --log=/dev/null "$@" >dpkg.log 2>&1 || {
        cat dpkg.log
        return 1
    }
}

@test "make install and make uninstall leave no file" {
    make -s -C "$DT_BUILDDIR" install DESTDIR="$WORK/dest" >install.log 2>&1
    files dest >installed
    grep -q '/bin/disttrain$' installed
    grep -q '/spank_disttrain.so$' installed
    grep -q '/man8/spank_disttrain.8$' installed
    run ! grep '[.]la$' installed
    run -0 missing_links dest/"$(grep '/README.md$' installed | head -n 1)"
    [[ -z $output ]]
    local plugin
    plugin=$(grep '/spank_disttrain.so$' installed)
    grep -x "required ${plugin#.}" dest/"$(grep zz-disttrain.conf installed)"
    hardened "dest/$plugin"
    hardened "dest/$(grep '/bin/disttrain$' installed)"
    make -s -C "$DT_BUILDDIR" uninstall DESTDIR="$WORK/dest" >>install.log 2>&1
    run -0 files dest
    [[ -z $output ]]
}

@test "plugstack.conf's line is read after the one of pyxis" {
    local snippet
    snippet=$(cd "$DT_BUILDDIR/contrib/plugstack" && echo ./*.conf)
    mkdir plugstack.conf.d
    touch plugstack.conf.d/{pyxis.conf,90-pyxis.conf,"$snippet"}
    cd plugstack.conf.d
    run -0 bash -c 'LC_ALL=C; printf "%s\n" *.conf | tail -n 1'
    [[ ./$output == "$snippet" ]]
}

@test "the packages have the version of the program" {
    run -0 sed -n '1s/.*(\(.*\)).*/\1/p' "$TREE/debian/changelog"
    [[ $output == "$VERSION" ]]
    run -0 sed -n 's/^Version: //p' "$TREE/contrib/packaging/disttrain.spec"
    [[ $output == "$VERSION" ]]
}

# debhelper depends on the autotools, and Debian builds always have a compiler.
@test "the Debian package needs the same packages as contrib/check" {
    # shellcheck source=contrib/build.sh
    run -0 bash -c '. "$0"; printf "%s\n" $packages_build' \
        "$TREE/contrib/build.sh"
    local want
    want=$(grep -vxE 'autoconf|automake|libtool|make|gcc|g\+\+' <<<"$output")
    run -0 sed -n '/^Build-Depends/,/^[^ B]/s/.* \([a-z].*[a-z0-9]\),*$/\1/p' \
        "$TREE/debian/control"
    diff <(sort <<<"$want") <(sort <<<"$output")
}

@test "dpkg-buildpackage builds the packages" {
    need dh
    cp -r "$TREE" deb
    # all flags of a release except for the two that take most of the time
    DEB_BUILD_OPTIONS="parallel=$(nproc) noautodbgsym" \
        DEB_CFLAGS_APPEND="-O0 -g0" DEB_CXXFLAGS_APPEND="-O0 -g0" env --chdir=deb \
        dpkg-buildpackage -us -uc -b -d >deb.log 2>&1 ||
        { tail -n 30 deb.log && return 1; }
    touch debs
}

@test "lintian has nothing to say about the Debian packages" {
    need_debs
    need lintian
    run -0 lintian --allow-root ./*.changes
    [[ -z $output ]]
}

@test "the Debian plugin depends on the Slurm release it was built for" {
    need_debs
    run -0 dpkg-deb --field "$(plugin_deb)" Depends
    [[ $output == *"slurm-wlm-basic-plugins (>= $(slurm_series)~), "* ]]
    [[ $output == *"slurm-wlm-basic-plugins (<< $(slurm_series 1)~)"* ]]
    [[ $output == *"disttrain (= $VERSION)"* ]]
    run -0 dpkg-deb --field "$(runtime_deb)" Depends
    [[ $output != *slurm* ]]
}

@test "a cluster with the Debian packages trains" {
    [[ -z $DT_SKIP ]] || skip "$DT_SKIP"
    need_debs
    dpkg -x "$(plugin_deb)" used
    dpkg -x "$(runtime_deb)" used
    local file
    run -0 missing_links used/usr/share/doc/disttrain/README.md
    [[ -z $output ]]
    for file in used/usr/bin/disttrain used/usr/lib/*/slurm-wlm/*.so; do
        hardened "$file" && stripped "$file"
    done
    sed -e 's/max_steps: .*/max_steps: 2/' -e 's/checkpoint:/&\n  strategy: "no"/' \
        "$TREE/configs/quickstart.yaml" >c.yaml
    dt_devcluster up --nodes 2 --cpus 1 --runtime "$WORK/used/usr/bin/disttrain" \
        --plugin "$(echo "$WORK"/used/usr/lib/*/slurm-wlm/spank_disttrain.so)"
    dt_need_pmix
    run -0 dt_run env OUTPUT="$WORK/out" srun -N2 -n2 \
        --disttrain=c.yaml
    [[ $output == *"done: 2 steps"* ]]
    dt_devcluster down
}

@test "removing the Debian plugin removes its line from plugstack.conf" {
    need_debs
    mkdir -p root/var/lib/dpkg/{updates,info} root/etc
    touch root/var/lib/dpkg/{status,available}
    local line=root/etc/slurm/plugstack.conf.d/zz-disttrain.conf
    deb_root --install "$(runtime_deb)" "$(plugin_deb)"
    grep -x 'required /usr/lib/.*/slurm-wlm/spank_disttrain.so' "$line"
    echo '# ours' >>"$line"
    deb_root --remove slurm-wlm-disttrain-plugin
    [[ ! -e $line ]]
    deb_root --install "$(plugin_deb)"
    grep -x '# ours' "$line"
}

@test "purging the Debian packages leaves no file" {
    need_debs
    deb_root --purge slurm-wlm-disttrain-plugin disttrain
    run -0 files root
    [[ $(grep -v ^./var/lib/dpkg/ <<<"$output") == "" ]]
}

@test "rpmbuild builds the packages" {
    need rpmbuild
    mkdir -p rpm/SOURCES
    tar -cJf "rpm/SOURCES/disttrain-$VERSION.tar.xz" "disttrain-$VERSION"
    # the Debian packages above are compiled with most flags of a release
    rpmbuild -bb --nodeps --define "_topdir $WORK/rpm" \
        --define "optflags -O0" --undefine=_enable_debug_packages \
        "$TREE/contrib/packaging/disttrain.spec" >rpm.log 2>&1 ||
        { tail -n 30 rpm.log && return 1; }
    run -0 rpm -qlp rpm/RPMS/*/disttrain-"$VERSION"*.rpm
    [[ $output == *"/usr/bin/disttrain"*"/man1/disttrain.1"* ]]
    [[ $output == *"/man1/disttrain-train.1"* ]]
    run -0 rpm -qlp rpm/RPMS/*/disttrain-slurm-"$VERSION"*.rpm
    [[ $output == *"/slurm/plugstack.conf.d/zz-disttrain.conf"* ]]
    [[ $output == *"/slurm/spank_disttrain.so"*"/man8/spank_disttrain.8"* ]]
    run -0 rpm -qp --requires rpm/RPMS/*/disttrain-slurm-"$VERSION"*.rpm
    [[ $output == *"slurm < $(slurm_series 1)"* ]]
    [[ $output == *"slurm >= $(slurm_series)"* ]]
    local file
    rm -rf used
    mkdir used
    for file in rpm/RPMS/*/disttrain-*.rpm; do
        rpm2archive - <"$file" | tar -xz -C used # releases write FILE.tgz or stdout
    done
    for file in used/usr/bin/disttrain used/usr/lib*/slurm/*.so; do
        hardened "$file" && stripped "$file"
    done
    grep -x 'required /usr/lib.*/slurm/spank_disttrain.so' \
        used/etc/slurm/plugstack.conf.d/zz-disttrain.conf
}
