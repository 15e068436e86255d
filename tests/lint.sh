#!/bin/sh
# SPDX-License-Identifier: MIT
# lint.sh SOURCE_FOLDER COMPILER_FLAGS... - formatter, second compiler, static check, manual and script
# lint, each with zero findings. Run by make lint in the build folder. A tool that is not installed is
# reported as skipped.
set -u
LC_ALL=C
export LC_ALL
source=${1:-.}
[ $# -eq 0 ] || shift
passed=0
failed=0
skipped=0
log=$(mktemp "${TMPDIR:-/tmp}/qwenrun-lint.XXXXXX") || exit 99
trap 'rm -f "$log"' EXIT
trap 'exit 99' HUP INT TERM

# check NAME TOOL COMMAND...: any output and any status but 0 is a finding.
check() {
    name=$1
    tool=$2
    shift 2
    if ! command -v "$tool" >/dev/null 2>&1; then
        skipped=$((skipped + 1))
        echo "SKIP $name: $tool is not installed"
    elif "$@" >"$log" 2>&1 && [ ! -s "$log" ]; then
        passed=$((passed + 1))
        echo "ok $name"
    else
        failed=$((failed + 1))
        echo "FAIL $name"
        sed 's/^/  /' "$log"
    fi
}

# Run a command with the files that find lists, if there are any. Names have no blanks below here.
on_files() {
    list=$(find "$1" -type f -name "$2" 2>/dev/null | sort)
    shift 2
    [ -z "$list" ] && return 0
    # shellcheck disable=SC2086 # split on purpose
    "$@" $list
}

second_compiler() {
    rc=0
    for file in "$source"/src/*.c "$source"/tests/*.c "$source"/tests/fuzz/*.c; do
        [ ! -e "$file" ] || clang "$@" -Werror -fsyntax-only "$file" || rc=1
    done
    return $rc
}

format() (
    cd "$source" || return 1
    rc=0
    for folder in src tests bench; do
        for pattern in '*.c' '*.h'; do
            on_files "$folder" "$pattern" clang-format --dry-run -Werror || rc=1
        done
    done
    return $rc
)

static_check() (
    cd "$source" || return 1
    cppcheck --quiet --std=c11 --language=c --error-exitcode=1 -j 2 --inline-suppr \
        --enable=warning,performance,portability --suppressions-list=tests/cppcheck.supp \
        -Isrc -Icl -DQW_COMMIT='"x"' -DQW_DATADIR='"x"' -DQW_SYSCONFDIR='"x"' \
        -DQW_BUILD_MODELS='"x"' '-Djson_object_foreach(o,k,v)=for(k="";(v=o)!=0;)' \
        '-Djson_array_foreach(a,i,v)=for(i=0;(v=a)!=0;i++)' src tests
)

manual() (
    cd "$source" || return 1
    rc=0
    for section in 1 5 7; do
        on_files man "*.$section" mandoc -T lint -W warning || rc=1
    done
    return $rc
)

scripts() (
    cd "$source" || return 1
    # shellcheck disable=SC2046 # no blanks in our names
    shellcheck -x -s sh -S warning quickstart autogen.sh tools/xe2-check \
        $(find cl tests tools bench -name '*.sh' | sort) && shellcheck -S warning .ci/run
)

check "clang has no warning" clang second_compiler "$@"
check "C files are formatted" clang-format format
check "static check finds nothing" cppcheck static_check
check "manual pages are clean" mandoc manual
check "scripts are clean" shellcheck scripts

if [ "$skipped" -gt 0 ]; then
    echo "$passed passed, $failed failed, $skipped skipped"
else
    echo "$passed passed, $failed failed"
fi
[ "$failed" -eq 0 ]
