#!/bin/sh
# SPDX-License-Identifier: MIT
# summary.sh [--strict] BUILD_FOLDER... - add up what the tests and stages of these builds said; the
# last line is "N passed, N failed, N skipped". Cases count, not programs: each test program says how
# many it had in its closing line. Exit 1 on a failure and, with --strict, on a skip that
# tests/skips.txt does not list.
set -u
LC_ALL=C
export LC_ALL
list=$(dirname -- "$0")/skips.txt
strict=0
if [ "${1:-}" = --strict ]; then
    strict=1
    shift
fi

# One line a result: "NAME|RESULT|closing line|BUILD_FOLDER".
collect() {
    for folder in "$@"; do
        [ -f "$folder/stages" ] && sed -n -e "s,^\(ok\|FAIL\) \(.*\),\2|\1||$folder,p" \
            -e "s,^SKIP \(.*\),\1|SKIP||$folder,p" "$folder/stages"
        [ -d "$folder/tests" ] || continue
        find "$folder/tests" -name '*.trs' | sort | while IFS= read -r trs; do
            result=$(sed -n 's/^:test-result: *//p' "$trs" | head -n 1)
            log=${trs%.trs}.log
            name=${trs#"$folder/"}
            name=${name%.trs}
            closing=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" 2>/dev/null | tail -n 1)
            printf '%s|%s|%s|%s\n' "$name" "$result" "$closing" "$folder"
            sed -n "s,^SKIP \(.*\),$name: \1|CASE-SKIP||$folder,p" "$log"
        done
    done
}

collect "$@" | awk -F '|' -v strict="$strict" -v list="$list" '
BEGIN {
    while ((getline line <list) > 0)
        if (line !~ /^(#|$)/)
            allowed[line] = 1
}
# A skip is allowed when its name stands in the list, alone or before ": reason".
function listed(name,  entry, known) {
    for (entry in allowed) {
        known = entry
        if (index(name, known) == 1)
            return 1
        sub(/: [^:]*$/, "", known)
        if (known != "" && (name == known || index(name, known ": ") == 1))
            return 1
    }
    return 0
}
function skip(name) {
    skipped++
    print "skipped: " name " (" $4 ")" (listed(name) ? "" : " (not on the list)")
    if (!listed(name))
        unlisted++
}
$2 == "CASE-SKIP" { skip($1); next }
{
    split($3, word, " ")
    good = $3 == "" ? 1 : word[1]
    bad = $3 == "" ? 0 : word[3]
}
$2 == "ok" { passed++ }
$2 == "PASS" { passed += good; failed += bad }
$2 == "SKIP" { if ($3 == "" || good + bad == 0) skip($1) }
$2 == "FAIL" || $2 == "ERROR" || $2 == "XPASS" || $2 == "" {
    print "failed: " $1 " (" $4 ")"
    passed += $3 == "" ? 0 : good
    failed += bad > 0 ? bad : 1
}
END {
    if (strict && unlisted)
        print "skips that tests/skips.txt does not list: " unlisted
    printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
    exit failed > 0 || passed == 0 || (strict && unlisted > 0)
}'
