#!/bin/sh
# SPDX-License-Identifier: MIT
# All kernels, few rows, in oclgrind: data races, uninitialised values, accesses out of bounds. Its
# exit status is the program's, so what counts is that its log stays empty. Without optimisation: it
# does not know all that an optimiser makes (freeze).
set -u
command -v oclgrind >/dev/null || { echo "skipped: oclgrind is not installed"; exit 77; }
if grep -q __asan_init "${builddir:-.}/tests/test_kernels"; then
    echo "skipped: oclgrind cannot be loaded before a sanitizer"
    exit 77
fi
dir=$(mktemp -d "${TMPDIR:-/var/tmp}/qw-oclgrind.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
trap 'exit 99' HUP INT TERM

passed=0
failed=0
for test in test_kernels test_pack "test_xe2 widths not_finite tops embed"; do
    good=1
    name=${test%% *}
    # shellcheck disable=SC2086 # a program and its tests
    set -- ${test#"$name"}
    oclgrind --build-options -cl-opt-disable --data-races --uninitialized --log "$dir/log" \
        "${builddir:-.}/tests/$name" --small "$@" >"$dir/out" 2>&1 || good=0
    cat "$dir/out"
    grep -q '^device Oclgrind' "$dir/out" || { echo "$name did not run in oclgrind"; good=0; }
    if [ ! -f "$dir/log" ] || [ -s "$dir/log" ]; then
        echo "oclgrind found in $name ($(wc -c <"$dir/log") bytes of log):"
        head -n 40 "$dir/log"
        good=0
    fi
    rm -f "$dir/log"
    passed=$((passed + good))
    failed=$((failed + 1 - good))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
