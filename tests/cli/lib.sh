# SPDX-License-Identifier: MIT
# lib.sh - what a CLI test sources: cases with counters, a scratch folder, the closing line.
#
#   . "${srcdir:-.}/tests/cli/lib.sh"
#   t_run run -p hello --raw        # status in $t_status, output in $t_out and $t_err (files)
#   t_status_is "answers" 0         # one case each: prints ok or FAIL with what was seen
#   t_out_has "the answer" 'regex'
#   t_end                           # closing line and exit status; always the last line
#
# The program is $QWENRUN (set by make check). Exit: 0 passed, 1 failed, 99 not set up.
# shellcheck shell=sh

set -u
LC_ALL=C
export LC_ALL
t_passed=0
t_failed=0
t_skipped=0
t_src=${srcdir:-.}
# shellcheck disable=SC2034 # for the tests
t_models=$t_src/models/tiny
t_program=${QWENRUN:-src/qwenrun}
if [ ! -x "$t_program" ]; then
    echo "no program at $t_program: set QWENRUN"
    exit 99
fi
t_dir=$(mktemp -d "${TMPDIR:-/tmp}/qwenrun-test.XXXXXX") || exit 99
trap 'rm -rf "$t_dir"' EXIT
trap 'exit 99' HUP INT TERM
t_out=$t_dir/out
t_err=$t_dir/err
t_status=0
t_what=

t_pass() {
    t_passed=$((t_passed + 1))
    echo "ok $1"
}

# t_fail NAME [WHY]: also shows the last command and the ends of what it wrote.
t_fail() {
    t_failed=$((t_failed + 1))
    echo "FAIL $1${2:+: $2}"
    if [ -n "$t_what" ]; then
        echo "  command: $t_what (status $t_status)"
        tail -n 5 "$t_out" | sed 's/^/  stdout: /'
        tail -n 5 "$t_err" | sed 's/^/  stderr: /'
    fi
}

# t_skip NAME REASON: counted, and CI allows only the names listed in tests/skips.txt.
t_skip() {
    t_skipped=$((t_skipped + 1))
    echo "SKIP $1: $2"
}

# t_ok NAME COMMAND...: the command says whether the case passes.
t_ok() {
    t_name=$1
    shift
    if "$@"; then t_pass "$t_name"; else t_fail "$t_name"; fi
}

# Run the program with these arguments; stdin is the caller's.
t_run() {
    t_what="qwenrun $*"
    t_status=0
    "$t_program" "$@" >"$t_out" 2>"$t_err" || t_status=$?
}

t_status_is() {
    if [ "$t_status" -eq "$2" ]; then t_pass "$1"; else t_fail "$1" "status is not $2"; fi
}

t_out_has() {
    if grep -q -e "$2" "$t_out"; then t_pass "$1"; else t_fail "$1" "stdout lacks '$2'"; fi
}

t_err_has() {
    if grep -q -e "$2" "$t_err"; then t_pass "$1"; else t_fail "$1" "stderr lacks '$2'"; fi
}

t_out_empty() {
    if [ ! -s "$t_out" ]; then t_pass "$1"; else t_fail "$1" "stdout is not empty"; fi
}

t_err_lines() {
    t_lines=$(wc -l <"$t_err")
    if [ "$((t_lines))" -eq "$2" ]; then
        t_pass "$1"
    else
        t_fail "$1" "$((t_lines)) lines on stderr, not $2"
    fi
}

# t_same NAME FILE1 FILE2
t_same() {
    if cmp -s "$2" "$3"; then
        t_pass "$1"
    else
        t_fail "$1" "$(cmp "$2" "$3" 2>&1)"
    fi
}

# The refusal every bad input gets: this status, nothing on stdout, one line on stderr with this in it.
t_refused() {
    if [ "$t_status" -ne "$2" ]; then
        t_fail "$1" "status is not $2"
    elif [ -s "$t_out" ]; then
        t_fail "$1" "stdout is not empty"
    elif [ "$(wc -l <"$t_err")" -ne 1 ]; then
        t_fail "$1" "not one line on stderr"
    elif ! grep -q -e "$3" "$t_err"; then
        t_fail "$1" "stderr lacks '$3'"
    else
        t_pass "$1"
    fi
}

t_end() {
    if [ "$t_skipped" -gt 0 ]; then
        echo "$t_passed passed, $t_failed failed, $t_skipped skipped"
    else
        echo "$t_passed passed, $t_failed failed"
    fi
    if [ "$t_failed" -gt 0 ]; then exit 1; fi
    if [ "$t_passed" -eq 0 ] && [ "$t_skipped" -gt 0 ]; then exit 77; fi
    exit 0
}
