#!/bin/sh
# SPDX-License-Identifier: MIT
# Replay what is kept for each fuzz target: tests/fuzz/corpus/NAME and, where there is one, the
# cases of tests/cases/NAME, through tests/fuzz/replay_NAME (built from fuzz_NAME.c).
top=${srcdir:-.}
failed=0 passed=0
for dir in "$top"/tests/fuzz/corpus/*/; do
    name=$(basename "$dir")
    set -- "$dir"
    [ -d "$top/tests/cases/$name" ] && set -- "$@" "$top/tests/cases/$name"
    if tests/fuzz/replay_"$name" "$@"; then
        echo "ok $name"
        passed=$((passed + 1))
    else
        echo "FAIL $name"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
