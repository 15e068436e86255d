# SPDX-License-Identifier: MIT
# run: prompts from -p, -f and stdin, what stops an answer, JSON, statistics, refusals, Ctrl-C.
. "${srcdir:-.}/tests/cli/lib.sh"
model=$t_models/tiny-qwen35-q4_0.gguf
printf 'def add(a, b):' >"$t_dir/prompt"

t_run run --raw -o sampling.max_tokens=16 -p 'def add(a, b):' </dev/null
t_status_is "run -p" 0
t_err_has "statistics on stderr" 'decode [0-9.]* tok/s'
cp "$t_out" "$t_dir/answer"
t_run run --raw -q -o sampling.max_tokens=16 -f "$t_dir/prompt" </dev/null
t_same "run -f gives the same" "$t_out" "$t_dir/answer"
t_ok "-q says nothing" [ ! -s "$t_err" ]
t_run run --raw -o sampling.max_tokens=16 <"$t_dir/prompt"
t_same "stdin gives the same" "$t_out" "$t_dir/answer"
t_run run --raw -o sampling.max_tokens=16 -f - <"$t_dir/prompt"
t_same "-f - gives the same" "$t_out" "$t_dir/answer"
t_run run --raw -o sampling.max_tokens=16 -o model.target="$model" -o device.shape=gpu -p 'def add(a, b):' </dev/null
t_same "the GPU launch shape gives the same" "$t_out" "$t_dir/answer"
t_run run --raw -o sampling.max_tokens=16 -o batch.prefill=3 -p 'def add(a, b):' </dev/null
t_same "prefill in steps of 3 gives the same" "$t_out" "$t_dir/answer"

t_run run -o sampling.max_tokens=40 -p 'Say these words in this order: blue, green, red, yellow' </dev/null
t_status_is "chat" 0
t_run run --json --logits-hash -o sampling.max_tokens=16 --raw -p 'def add(a, b):' </dev/null
t_status_is "--json" 0
for key in text prompt_ids ids finish_reason usage prompt_tokens completion_tokens cached_tokens \
    timings load_ms ttft_ms decode_tok_s prefill_tok_s speculation method cycles drafted accepted \
    per_position mean_emitted logits_sha256 identity version commit device driver platform kernels \
    target_sha256 draft_sha256 options; do
    t_out_has "--json has $key" "\"$key\":"
done
t_out_has "finish_reason at max_tokens" '"finish_reason": "length"'
hash=$(sed -n 's/.*"logits_sha256": "\([0-9a-f]*\)".*/\1/p' "$t_out")
t_ok "a whole SHA-256" [ ${#hash} -eq 64 ]
t_run run --json --logits-hash -o sampling.max_tokens=16 -o batch.prefill=2 --raw -p 'def add(a, b):' </dev/null
t_out_has "the logits' hash does not depend on the split" "$hash"

# sampling: a seed means the same text each time
t_run run --raw -q -o sampling.temperature=0.8 -o sampling.seed=5 -o sampling.max_tokens=24 -p 'import os' </dev/null
cp "$t_out" "$t_dir/seed5"
t_run run --raw -q -o sampling.temperature=0.8 -o sampling.seed=5 -o sampling.max_tokens=24 -p 'import os' </dev/null
t_same "same seed, same text" "$t_out" "$t_dir/seed5"
t_run run --raw -q -o sampling.temperature=0.8 -o sampling.seed=6 -o sampling.max_tokens=24 -p 'import os' </dev/null
if cmp -s "$t_out" "$t_dir/seed5"; then t_fail "another seed, another text"; else t_pass "another seed, another text"; fi

# stop texts: nothing of them is printed, what stands before is
t_run run --raw -q -o sampling.max_tokens=64 -p 'def add(a, b):' </dev/null
whole=$(cat "$t_out")
word=$(printf '%s' "$whole" | tr -d '\n' | cut -c 8-12)
t_run run --raw -q -o sampling.max_tokens=64 -o "sampling.stop=$word" -p 'def add(a, b):' </dev/null
if grep -q -F -e "$word" "$t_out"; then t_fail "stop text is not printed"; else t_pass "stop text is not printed"; fi
t_run run --json --raw -o sampling.max_tokens=64 -o "sampling.stop=$word" -p 'def add(a, b):' </dev/null
t_out_has "stop text: finish_reason" '"finish_reason": "stop"'

# refusals
t_run run -f "$t_dir/nowhere" </dev/null
t_refused "no such prompt file" 2 'nowhere'
t_run run -p x -f "$t_dir/prompt" </dev/null
t_refused "two prompts" 2 'two prompts'
t_run run --raw -p '' </dev/null
t_refused "empty prompt" 2 'empty'
t_run run --specials -p x </dev/null
t_refused "--specials without --raw" 2 'goes with --raw'
yes 'a b c' | head -n 3000 >"$t_dir/long"
t_run run --raw -f "$t_dir/long" </dev/null
t_refused "prompt longer than the context" 2 'model.context'
t_run run -o model.target="$t_dir/none.gguf" -p x </dev/null
t_refused "no such model" 3 'none.gguf'
t_run run -o model.context=100000 -p x </dev/null
t_refused "more context than the model knows" 2 'model.context'
t_run run -o speculation.method=mtp -p x </dev/null
t_refused "MTP of a file that has none" 2 'speculation.method'
t_run run -o kernels.gdn=xe2 -p x </dev/null
t_refused "a kernel that is not there" 2 'kernels.gdn'
t_run run -o device.device=nosuchdevice -p x </dev/null
t_refused "no such device" 4 'nosuchdevice'
t_run run -o device.backend=xe2 -p x </dev/null
t_refused "a backend that is not there" 2 'device.backend'

# kernels from a folder; a broken one shows the compiler's log
cp -R "$t_src/cl" "$t_dir/cl"
chmod -R u+w "$t_dir/cl"
t_run run --raw -q -o device.kernel_dir="$t_dir/cl" -o sampling.max_tokens=16 -p 'def add(a, b):' </dev/null
t_same "kernel_dir: same kernels, same answer" "$t_out" "$t_dir/answer"
echo 'kernel void broken(' >>"$t_dir/cl/generic/conv.cl"
t_run run --raw -q -o device.kernel_dir="$t_dir/cl" -p x </dev/null
t_status_is "kernel_dir: a broken kernel" 4
t_err_has "the build log names a place" 'generic/[a-z]*.cl:[0-9]'

# non-finite logits are an error, never text
cp "$t_src/cl/generic/conv.cl" "$t_dir/cl/generic/conv.cl"
chmod u+w "$t_dir/cl/generic/conv.cl"
sed 's/vstore4(r, 0, y/vstore4(r * NAN, 0, y/' "$t_src/cl/generic/conv.cl" >"$t_dir/cl/generic/conv.cl"
t_run run --raw -q -o device.kernel_dir="$t_dir/cl" -p 'def add(a, b):' </dev/null
t_refused "NaN in the network" 4 'not finite'
t_run run --raw -q -o device.kernel_dir="$t_dir/cl" -o sampling.temperature=1 -p 'def add(a, b):' </dev/null
t_refused "NaN while sampling" 4 'not finite'

# a reader that leaves, and Ctrl-C
t_what="run to a full device"
if [ -w /dev/full ]; then
    t_status=0
    "$t_program" run --raw -q -o sampling.max_tokens=8 -p x >/dev/full 2>"$t_err" </dev/null || t_status=$?
    t_status_is "stdout is full" 1
fi
t_what="run, interrupted"
# a shell starts background jobs with SIGINT ignored: env sets it back
env --default-signal=INT "$t_program" run --raw -o sampling.max_tokens=4000 -o sampling.temperature=1.5 \
    -o sampling.top_k=0 -o sampling.top_p=1 -p 'import os' >"$t_out" 2>"$t_err" </dev/null &
pid=$!
n=0
while [ ! -s "$t_out" ] && [ $n -lt 600 ]; do
    sleep 0.1
    n=$((n + 1))
done
kill -INT $pid
t_status=0
wait $pid || t_status=$?
t_status_is "Ctrl-C: status" 130
t_ok "Ctrl-C: what was made is out" [ -s "$t_out" ]
t_err_has "Ctrl-C: said so" 'interrupted'
t_end
