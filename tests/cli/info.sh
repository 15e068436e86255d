# SPDX-License-Identifier: MIT
# info, plan, tokenize: text and JSON, and every bad file of tests/cases/gguf through the program.
. "${srcdir:-.}/tests/cli/lib.sh"
model=$t_models/tiny-qwen35-q4_0.gguf

t_run info -o model.target="$model"
t_status_is "info" 0
t_out_has "info: a kernel an op" 'gdn *generic'
t_out_has "info: a kernel a tensor type" 'Q4_0 .*matmul_q4_0'
t_run info --json --sha256 -o model.target="$model"
t_status_is "info --json" 0
sum=$(sed -n 's/  *\*\{0,1\}tiny-qwen35-q4_0.gguf$//p' "$t_models/SHA256SUMS")
t_out_has "info --sha256 is the file's" "$sum"

t_run plan --json -o model.target="$model"
t_status_is "plan --json" 0
for key in weights_bytes kv_cache_bytes gdn_state_bytes conv_history_bytes activations_bytes \
    attention_bytes logits_bytes rope_bytes control_bytes total_bytes free_bytes fits context \
    largest_context kv_type kv_bytes_per_token; do
    t_out_has "plan has $key" "\"$key\":"
done
t_run plan -o model.target="$model"
t_out_has "plan in words" 'total_bytes'
t_run plan --b70 --launches
t_status_is "plan for a card that is not here" 0
t_out_has "plan --b70: of that card" 'device .*B70 (on paper)'
# 6 rows; S and the copy of it, 6 heads of 128 x 128 floats each, and five rows of the tape, both in and
# out; 1280 columns after the convolution and 2060 before; the ring; 768 of the output, as floats in and
# out and as blocks out
S=$((2 * 6 * 128 * 128 * 4 + 5 * (8 * 128 + 6) * 4))
t_out_has "plan --launches: bytes of a launch" \
    "^  qw_gdn  *768x1  *128x1  *$((S + 6 * (1280 + 2060 + 768) * 4)) *$((S + 6 * (1280 + 768) * 4 + 6 * 768 * 10 / 8))\$"
t_run plan --b70 --launches --json
t_status_is "plan --launches --json" 0
for key in programs step head verify draft inject accept kernel program global local read_bytes \
    written_bytes arguments; do
    t_out_has "plan --launches has $key" "\"$key\":"
done
t_run plan --launches -o model.target="$model" -o speculation.method=none -o device.shape=gpu
t_status_is "plan --launches of the device that is here" 0

t_run tokenize -o model.normalize=none 'Hello, World!'
t_ok "tokenize" [ "$(cat "$t_out")" = "39 412 321 11 688 2970 0" ]
t_run tokenize --decode 39 412 321 11 688 2970 0
t_ok "tokenize --decode" [ "$(cat "$t_out")" = "Hello, World!" ]
t_run tokenize --decode 99999999
t_refused "an id outside the vocabulary" 2 'vocabulary'
t_run tokenize --decode 12x
t_refused "not an id" 2 '12x'
t_run tokenize '<|im_end|>'
t_ok "user text makes no control token" [ "$(cat "$t_out")" != 4065 ]
t_run tokenize --specials '<|im_end|>'
t_ok "--specials does" [ "$(cat "$t_out")" = 4065 ]
printf '' | "$t_program" tokenize >"$t_out" 2>"$t_err"
t_ok "empty text, no ids" [ "$(cat "$t_out")" = "" ]

for file in "$t_src"/tests/cases/gguf/*.gguf; do
    name=$(basename "$file" .gguf)
    t_run info -o model.target="$file"
    t_refused "$name" 3 "$name"
done
t_run info -o model.target="$t_src/tests/cases/gguf/g00-control.gguf"
t_err_has "g00: only a block tensor is missing" 'blk\.0\.'
t_run tokenize -o model.target="$t_src/tests/cases/gguf/g00-control.gguf" a
t_status_is "g00 can tokenize" 0
t_end
