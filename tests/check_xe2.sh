#!/bin/sh
# SPDX-License-Identifier: MIT
# check_xe2.sh [KEEP_FOLDER] - every kernel compiled for an Arc Pro B70, as src/kern.c puts it together
# and with the numbers of the models in use. Generic kernels must compile and call nothing undefined;
# those of cl/xe2 must also not spill, run 16 work-items in a thread and use the matrix unit where they
# say so. Then bench/xe2_model.py prices a cycle from that machine code and the plans of $QWENRUN, and is
# compared with bench/results/xe2-model.json; QW_UPDATE=1 writes that file instead. Binaries and
# disassembly are left in KEEP_FOLDER. Exit 77: no compiler, nothing was checked.
set -u
LC_ALL=C
export LC_ALL
program=${QWENRUN:-}
case $program in
'' | /*) ;;
*) program=$(pwd)/$program ;;
esac
work=$(mktemp -d "${TMPDIR:-/tmp}/qw-check-xe2.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 99' HUP INT TERM
keep=${1:-$work/keep}
mkdir -p "$keep" && keep=$(cd "$keep" && pwd) || exit 99
rm -rf "$keep"/generic* "$keep"/xe2-* # of a run before
cd "${srcdir:-.}" || exit 99
passed=0
failed=0
out=$work/out

# unit NAME OPTIONS...: one program through the checker, its counts added up.
unit() {
    name=$1
    shift
    echo "== $name"
    sh tools/xe2-check --keep "$keep/$name" --program "$@" >"$out" 2>&1
    add_up $?
}

# add_up STATUS: shows $out and adds its closing line to the counts; a broken run ends all.
add_up() {
    cat "$out"
    [ "$1" -lt 2 ] || exit "$1"
    closing=$(tail -n 1 "$out")
    case $closing in
    *" passed, "*" failed") ;;
    *) exit 1 ;;
    esac
    closing=${closing%" failed"}
    passed=$((passed + ${closing%" passed,"*}))
    failed=$((failed + ${closing#*"passed, "}))
}

# options HEAD_SIZE KV_BITS: as src/kern.c gives them on a GPU. The 27B model and the tiny one have
# GDN heads of 128 and 4 taps; attention heads are 256 wide, the drafter's 128.
options() {
    echo "-cl-std=CL1.2 -w -DQW_CPU=0 -DQW_DK=128 -DQW_TAPS=4 -DQW_HD=$1 -DQW_KV=$2 -DQW_ROW_WG=64" \
        "-cl-fp32-correctly-rounded-divide-sqrt"
}

shared="cl/cycle.h cl/common.clh cl/blocks.clh cl/gdn.clh"
version=$(sh tools/xe2-check --fetch --version) || exit
echo "$version"
# shellcheck disable=SC2086 # lists
unit generic -o "$(options 256 16)" $shared cl/generic/*.cl
for sizes in "256 8" "256 32" "128 16" "128 8" "128 32"; do
    # shellcheck disable=SC2086
    unit "generic-attention-$(echo $sizes | tr ' ' -)" -o "$(options $sizes)" $shared \
        cl/generic/rope.cl cl/generic/attn.cl
done

# A file of cl/xe2 names the kernels that must use the matrix unit in a line of its head comment:
# " * dpas: PATTERN...". It is compiled for each size that it asks for, all of them otherwise, with both
# forms of four-bit weights.
own="-DQW_EMULATED=0 -DQW_INT4=1 -DQW_INT8=1"
xe2_file() {
    file=$1
    set -f # patterns, not files
    set --
    for pattern in $(sed -n 's/^ \* dpas: *//p' "$file"); do
        set -- "$@" --require-dpas "$pattern"
    done
    set +f
    base=$(basename "$file" .cl)
    # shellcheck disable=SC2086
    if grep -Eq 'QW_(HD|KV)' "$file"; then
        for sizes in "256 16" "256 8" "128 16" "128 8"; do
            unit "xe2-$base-$(echo $sizes | tr ' ' -)" --max-spill 0 --max-private 0 --require-simd 16 \
                "$@" -o "$(options $sizes) $own" $shared $shared_xe2 "$file"
        done
    else
        unit "xe2-$base" --max-spill 0 --max-private 0 --require-simd 16 "$@" \
            -o "$(options 256 16) $own" $shared $shared_xe2 "$file"
    fi
}

shared_xe2=$(find cl/xe2 -name '*.h' -o -name '*.clh' 2>/dev/null | sort)
for file in cl/xe2/*.cl; do
    [ -e "$file" ] || { echo "== xe2: there is no such kernel yet" && continue; }
    xe2_file "$file"
done

# What all that would take on the card, by a model.
model() {
    echo "== a cycle on the card, by a model"
    PYTHONDONTWRITEBYTECODE=1 python3 bench/xe2_model.py --asm "$keep" --program "$program" \
        --compiler "$version" --table bench/results/xe2-model.json ${QW_UPDATE:+--update} >"$out" 2>&1
    add_up $?
}
if [ ! -x "$program" ]; then
    echo "no model of a cycle: there is no program ${program:-(QWENRUN is not set)}"
elif ! command -v python3 >/dev/null; then
    echo "no model of a cycle: python3 is not installed"
else
    model
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
