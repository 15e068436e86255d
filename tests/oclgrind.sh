#!/bin/sh
# SPDX-License-Identifier: MIT
# The kernels of test_kernels, few rows, in oclgrind: data races, uninitialised values, accesses out of
# bounds. Its exit status is the program's, so what counts is that its log stays empty. Without
# optimisation: it does not know all that an optimiser makes (freeze).
set -u
program=${builddir:-.}/tests/test_kernels
command -v oclgrind >/dev/null || { echo "skipped: oclgrind is not installed"; exit 77; }
if grep -q __asan_init "$program"; then
    echo "skipped: oclgrind cannot be loaded before a sanitizer"
    exit 77
fi
dir=$(mktemp -d "${TMPDIR:-/var/tmp}/qw-oclgrind.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
trap 'exit 99' HUP INT TERM

failed=0
oclgrind --build-options -cl-opt-disable --data-races --uninitialized --log "$dir/log" \
    "$program" --small >"$dir/out" 2>&1 || failed=1
cat "$dir/out"
grep -q '^device Oclgrind' "$dir/out" || { echo "it did not run in oclgrind"; failed=1; }
if [ ! -f "$dir/log" ] || [ -s "$dir/log" ]; then
    echo "oclgrind found ($(wc -c <"$dir/log") bytes of log):"
    head -n 40 "$dir/log"
    failed=1
fi
echo "$((1 - failed)) passed, $failed failed"
exit $failed
