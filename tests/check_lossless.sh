#!/bin/sh
# SPDX-License-Identifier: MIT
# check_lossless.sh - the golden prompts, every length, both cache types: plain and drafted runs equal in
# every bit. About a quarter of an hour on two cores: part of `make check-long`.
set -u
program=${QWENRUN:-src/qwenrun}
src=${srcdir:-.}
passed=0
failed=0
for kv in f16 q8_0; do
    "$program" verify lossless --all-lengths --tokens "${TOKENS:-48}" -q -o kv.target=$kv \
        --prompts "$src/tests/golden/prompts.json"
    rc=$?
    if [ $rc = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL kv.target = $kv: status $rc"
    fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
