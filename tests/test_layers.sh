#!/bin/sh
# SPDX-License-Identifier: MIT
# The house rules that grep can check: who includes whom (the table of ARCHITECTURE.md), OpenCL behind
# dev.h alone, files of at most 800 lines, settings from INI files instead of the environment.
set -u
LC_ALL=C
export LC_ALL
cd "${srcdir:-.}" || exit 99
passed=0
failed=0

# result NAME FINDINGS: passed where there are none, otherwise each line is one.
result() {
    if [ -z "$2" ]; then
        passed=$((passed + 1))
        echo "ok $1"
    else
        failed=$((failed + 1))
        echo "FAIL $1"
        printf '%s\n' "$2" | sed 's/^/  /'
    fi
}

# A file is listed by its name without suffix; NAME_PART belongs where NAME does.
layers='
host base options gguf quant hparams tok chat sample save hash
device dev kern plan ops pack weights cl_sources cycle commit config
engine model draft state layer target drafter dflash ngram mtp script adapt spec engine session generate qwenrun
commands main cmd http api
'

includes=$(layers="$layers" awk '
function layer_of(name,  cut) {
    if (name in layer)
        return layer[name]
    cut = name
    sub(/_.*/, "", cut)
    return cut in layer ? layer[cut] : ""
}
# May FROM (of layer OWN) include NAME (of layer OTHER)? rank: a layer may look up the table only.
function allowed(from, own, name, other) {
    if (name == "commit" || name == "config")
        return 1
    if (own != "commands")
        return rank[other] <= rank[own]
    if (other == "commands" || name == "qwenrun" || name ~ /^(base|options)/)
        return 1
    return from ~ /^cmd_(info|verify)/ && rank[other] <= rank["device"]
}
BEGIN {
    count = split(ENVIRON["layers"], line, "\n")
    for (i = 1; i <= count; i++) {
        words = split(line[i], word, " ")
        rank[word[1]] = i
        for (j = 2; j <= words; j++)
            layer[word[j]] = word[1]
    }
}
FNR == 1 {
    from = FILENAME
    sub(/.*\//, "", from)
    sub(/\.[ch]$/, "", from)
    own = layer_of(from)
    if (own == "")
        print FILENAME ": in no layer of the table"
}
own != "" && /^[ \t]*#[ \t]*include[ \t]*"/ {
    name = $0
    sub(/^[^"]*"/, "", name)
    sub(/".*/, "", name)
    sub(/.*\//, "", name)
    if (name !~ /\.h$/)
        next
    sub(/\.h$/, "", name)
    other = layer_of(name)
    if (other == "")
        print FILENAME ":" FNR ": includes " name ".h, which is in no layer of the table"
    else if (!allowed(from, own, name, other))
        print FILENAME ":" FNR ": a file of the " own " layer includes " name ".h (" other ")"
}' src/*.c src/*.h)
result "each file includes its own layer and those above it" "$includes"

result "OpenCL is included by dev.h alone" \
    "$(grep -n '#[[:space:]]*include[[:space:]]*[<"]CL/' src/*.[ch] | grep -v '^src/dev\.h:')"

result "qwenrun.h shows nothing of ours but base.h" \
    "$(grep -n '#[[:space:]]*include[[:space:]]*"' src/qwenrun.h | grep -v '"base\.h"')"

result "the environment is read in options.c and dev.c alone" \
    "$(grep -n 'getenv[[:space:]]*(' src/*.[ch] | grep -v -e '^src/options\.c:' -e '^src/dev\.c:')"

# OpenCL C 1.2 leaves these out; some compilers take them, NVIDIA's does not
result "kernels have no variadic macros" "$(grep -rnE '__VA_ARGS__|define [A-Za-z_0-9]+\([^)]*\.\.\.' cl)"

result "no file above 800 lines" \
    "$(find src cl tests bench -type f ! -name cl_sources.c ! -name commit.h \( -name '*.c' -o -name '*.h' -o -name '*.cl' -o -name '*.clh' \
        -o -name '*.sh' -o -name '*.def' \) -exec wc -l {} \; |
        awk '$1 > 800 {print $2 ": " $1 " lines"}')"

result "every source file has its licence line" \
    "$(find src cl tests bench tools man conf models -type f ! -name cl_sources.c ! -name commit.h \( -name '*.c' -o -name '*.h' -o -name '*.cl' \
        -o -name '*.clh' -o -name '*.sh' -o -name '*.def' -o -name '*.mk' -o -name '*.py' \) |
        while IFS= read -r file; do
            head -n 3 "$file" | grep -q 'SPDX-License-Identifier: MIT' || echo "$file"
        done)"

result "every C file and script is named in its local.mk, or its folder, so that a tarball has it" \
    "$(for folder in src tests bench; do
        [ -f "$folder/local.mk" ] || continue
        find "$folder" -type f ! -name cl_sources.c ! -name commit.h \( -name '*.c' -o -name '*.h' -o -name '*.def' -o -name '*.sh' -o -name '*.py' \) |
            while IFS= read -r file; do
            case $file in src/cl_sources.c | src/commit.h) continue ;; esac
            grep -q -F -e "$file" -e "${file%/*} " "$folder/local.mk" || echo "$file"
        done
    done)"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
