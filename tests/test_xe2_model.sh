#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/xe2_model.py on machine code that is kept here, and the model's files without weights through
# `plan`: their bytes are those of the 27B model.
set -u
LC_ALL=C
export LC_ALL
src=${srcdir:-.}
python=${PYTHON:-python3}
PYTHONDONTWRITEBYTECODE=1 # the source may be read-only
export PYTHONDONTWRITEBYTECODE
command -v "$python" >/dev/null || { echo "no $python" && exit 77; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/qw-model.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
trap 'exit 99' HUP INT TERM

"$python" "$src/tests/xe2_model_test.py" >"$dir/out" 2>&1
status=$?
cat "$dir/out"
closing=$(tail -n 1 "$dir/out")
case $closing in
*" passed, "*" failed") ;;
*) exit 1 ;;
esac
passed=${closing%%" "*}
failed=${closing#*", "}
failed=${failed%%" "*}

# value NAME WANTED PROGRAM: what a Python expression over the plan gives.
value() {
    if got=$("$python" -c "
import json, sys
plan = json.load(open(sys.argv[1]))
print($3)" "$dir/plan" 2>&1) && [ "$got" = "$2" ]; then
        passed=$((passed + 1))
        echo "ok $1"
    else
        failed=$((failed + 1))
        status=1
        echo "FAIL $1: $got, not $2"
    fi
}

"$python" "$src/bench/shapes_27b.py" "$dir" &&
    "${QWENRUN:-src/qwenrun}" plan --b70 --launches --json -o model.target="$dir/target.gguf" \
        -o model.draft="$dir/draft.gguf" -o batch.prefill=1 -o device.backend=generic >"$dir/plan" || exit 1
# columns of GDN: 10240 + 6144 + 48 + 48; of attention: 12288 + 1024 + 1024; 4.5 bits a weight
layer=$((3 * 5120 * 17408 + 6144 * 5120))
value "bytes of the products of all layers" \
    $(((64 * layer + 5120 * (48 * 16480 + 16 * 14336)) / 16 * 9)) \
    "sum(x['arguments'][0]['read_bytes'] for x in plan['launches']['step'] if 'matmul' in x['kernel'])"
# 6.5625 bits a weight
value "bytes of the head" $((5120 * 248320 / 256 * 210)) \
    "sum(x['arguments'][0]['read_bytes'] for x in plan['launches']['head'] if 'matmul' in x['kernel'])"
# 8.5 bits a weight
value "bytes of the drafter's layers" $((5 * 5120 * (4096 + 2048 + 4096 + 3 * 17408) / 32 * 34)) \
    "sum(x['arguments'][0]['read_bytes'] for x in plan['launches']['draft'] if 'matmul_q8' in x['kernel'])"
value "a cache of 64 KiB a position" $((4096 * 65536)) \
    "sum(x['arguments'][n]['read_bytes'] for x in plan['launches']['step'] if x['kernel'] == 'qw_attn' for n in (2, 3))"

# The manual has the figures of the committed table.
"$python" - "$src" >"$dir/figures" <<'END'
import json, sys
table = json.load(open(sys.argv[1] + "/bench/results/xe2-model.json"))
rows = list(table["verify_ms_by_width"].items())
rows.append(("a cycle of 6 rows", [sum(p[i] for p in table["parts_ms"].values()) for i in (0, 1)]))
print("\n".join(f".It {name} Ta {low:.0f} Ta {high:.0f}" for name, (low, high) in rows))
END
if grep '^\.It [1-9a].* Ta [0-9]' "$src/man/qwenrun-b70.7" | cmp -s - "$dir/figures"; then
    passed=$((passed + 1))
    echo "ok the manual's figures"
else
    failed=$((failed + 1))
    status=1
    echo "FAIL the manual's figures: man/qwenrun-b70.7 should have"
    cat "$dir/figures"
fi
echo "$passed passed, $failed failed"
exit $status
