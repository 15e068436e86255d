#!/bin/sh
# SPDX-License-Identifier: MIT
# verify lossless: passes as shipped, and notices a kernel that leaves a refused row in the state.
. "${srcdir:-.}/tests/cli/lib.sh"

t_run verify lossless --tokens 12 -q
t_status_is "shipped pair, F16 cache" 0
t_out_has "the drafter in force is compared" '^ok dflash n_max 5, greedy: 4 of 4 runs equal'
t_out_has "sampled runs too" '^ok ngram n_max 7, sampled: 4 of 4'
t_out_has "right drafts are accepted whole" 'its own answer, greedy: 4 of 4 runs equal, \([0-9]*\) of \1 drafts'
t_ok "nothing differs" sh -c "! grep -v '^ok ' '$t_out'"

cat >"$t_dir/one.json" <<'EOF'
{"prompts": [{"name": "ids", "ids": [100, 200, 300, 400, 500]}, {"name": "text", "text": "def f(x):\n"}]}
EOF
t_run verify lossless --tokens 10 --prompts "$t_dir/one.json" --json -q -o kv.target=q8_0
t_status_is "prompts of a file, Q8_0 cache, JSON" 0
t_out_has "one object says it passed" '"passed": true'
t_out_has "checks have numbers" '"drafter": "dflash"'

cp -R "$t_src/cl" "$t_dir/cl" && chmod -R u+w "$t_dir/cl"
sed 's/t < sure ? Sh/t <= sure ? Sh/; s/(t < sure ? S : X)/(t <= sure ? S : X)/' \
    "$t_src/cl/generic/gdn.cl" >"$t_dir/cl/generic/gdn.cl"
t_run verify lossless --tokens 12 -q -o device.kernel_dir="$t_dir/cl"
t_status_is "a refused row in the state is noticed" 1
t_out_has "the check that failed is named" '^FAIL '
t_err_has "one line says so" 'verify lossless: runs differ'

t_run verify
t_refused "nothing named" 2 'lossless'
t_run verify nonsense
t_refused "an unknown part" 2 'lossless'
t_run verify lossless --tokens 0
t_refused "no tokens" 2 'tokens'
t_run verify lossless --prompts "$t_dir/none.json"
t_refused "no such file" 2 'none.json'
echo '{"prompts": [{"name": "x"}]}' >"$t_dir/bad.json"
t_run verify lossless --prompts "$t_dir/bad.json" -q
t_refused "a prompt of nothing" 2 'neither'
echo '{"prompts": [' >"$t_dir/cut.json"
t_run verify lossless --prompts "$t_dir/cut.json" -q
t_refused "cut JSON" 2 'cut.json:'
t_end
