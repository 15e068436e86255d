# SPDX-License-Identifier: MIT
# The kernels of cl/xe2 on the shipped model, emulated: same ids and logits as the generic ones, drafting
# changes nothing, `info` says what runs, and what fails its self-test is neither used nor passed over.
. "${srcdir:-.}/tests/cli/lib.sh"
emulated='-o device.backend=xe2-emulated'

# answer NAME ARGS...: ids and the hash of all logits of a run
answer() {
    t_name=$1
    shift
    t_run run --json --logits-hash -p 'def add(a, b):' --raw -o sampling.max_tokens=8 "$@" </dev/null
    [ "$t_status" -eq 0 ] || t_fail "$t_name" "status is not 0"
    sed -n '/"ids": \[/,/\]/p; /"logits_sha256"/p' "$t_out" >"$t_dir/$t_name"
}
answer generic -o device.backend=generic
# shellcheck disable=SC2086 # an option and its value
answer xe2 $emulated
t_ok "an answer" grep -q '[0-9],' "$t_dir/xe2"
t_same "the generic kernels' ids and logits" "$t_dir/xe2" "$t_dir/generic"

# shellcheck disable=SC2086
t_run verify lossless --tokens 4 -q $emulated
t_status_is "drafting changes nothing" 0
t_out_has "at n_max 5" '^ok dflash n_max 5, greedy: 4 of 4 runs equal'
t_out_has "at n_max 7" '^ok dflash n_max 7, sampled: 4 of 4 runs equal'

# shellcheck disable=SC2086
t_run info $emulated
t_out_has "info: a product in xe2, and why" 'matmul_q4_0 *xe2 (emulated) *device.backend = xe2-emulated; its self-test passed'
t_out_has "info: an op that has only the generic kernel" 'embed *generic .*the only variant'
t_out_has "info: tensors in the unit's layout" 'Q4_0 .*x4_0 *matmul_q4_0 *xe2'
t_run info
t_out_has "info: auto says what a device lacks" 'matmul_q4_0 *generic .*\(no xe2: \|the device has\)'

# a unit that gets four-bit weights wrong: unpacked ones stand in, and one line says so
cp -R "$t_src/cl" "$t_dir/cl" && chmod -R u+w "$t_dir/cl"
sed 's/(28, 24, 20, 16, 12, 8, 4, 0)) >> 28/(28, 24, 20, 16, 12, 8, 4, 0)) >> 27/' \
    "$t_src/cl/xe2/emulate.h" >"$t_dir/cl/xe2/emulate.h"
# shellcheck disable=SC2086
answer fallback $emulated -o device.kernel_dir="$t_dir/cl"
t_same "int4 that fails its self-test: unpacked weights, the same answer" "$t_dir/fallback" \
    "$t_dir/generic"
t_err_has "says so, and what was wrong" 'take xe2-int8, as xe2 fails: self-test .* x4_0'
t_ok "once" [ "$(grep -c 'xe2 fails' "$t_err")" -eq 1 ]
# shellcheck disable=SC2086
t_run run -p x $emulated -o device.kernel_dir="$t_dir/cl" -o kernels.matmul_q4_0=xe2 </dev/null
t_refused "but not where the user named it" 2 'self-test .* x4_0'
sed 's/(a, a, a, a, b, b, b, b) << up) >> 24/(a, a, a, a, b, b, b, b) << up) >> 25/' \
    "$t_src/cl/xe2/emulate.h" >"$t_dir/cl/xe2/emulate.h"
# shellcheck disable=SC2086
t_run run -p x $emulated -o device.kernel_dir="$t_dir/cl" </dev/null
t_refused "a backend whose products are wrong" 2 'self-test .* q8_0'
t_end
