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
