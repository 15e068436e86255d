#!/bin/sh
# SPDX-License-Identifier: MIT
# Break a kernel in one place, and test_kernels must notice. A line is: file, the tests to run (after
# --small where few rows are enough, or oclgrind: what PoCL cannot show), a sed command that breaks the file. Products are left out of the
# broken set to build faster. Takes minutes: part of `make check-long`.
# Usage: mutants.sh [PATTERN]   only lines that match
set -u
program=${builddir:-.}/tests/test_kernels
src=${srcdir:-.}/cl
dir=$(mktemp -d "${TMPDIR:-/var/tmp}/qw-mutants.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
trap 'exit 99' HUP INT TERM
POCL_CACHE_DIR=$dir/cache # broken kernels stay out of the shared cache
export POCL_CACHE_DIR
mkdir "$dir/cache"

run_tests() {
    if [ "$1" != oclgrind ]; then
        "$program" --kernels "$dir/cl" "$@"
        return
    fi
    shift
    if ! command -v oclgrind || grep -q __asan_init "$program"; then
        return 77
    fi
    oclgrind --build-options -cl-opt-disable --data-races --log "$dir/log" \
        "$program" --small --kernels "$dir/cl" "$@"
    [ ! -s "$dir/log" ]
}

killed=0 alive=0
while IFS='|' read -r file tests edit; do
    [ -n "$file" ] || continue
    case "$file|$tests|$edit" in *"${1-}"*) ;; *) continue ;; esac
    rm -rf "$dir/cl"
    cp -R "$src" "$dir/cl" && chmod -R u+w "$dir/cl" || exit 99
    echo '/* no products */' >"$dir/cl/generic/matmul.cl"
    sed "$edit" "$src/$file" >"$dir/cl/$file" || exit 99
    if cmp -s "$src/$file" "$dir/cl/$file"; then
        echo "FAIL $file: nothing to break for: $edit"
        alive=$((alive + 1))
        continue
    fi
    # shellcheck disable=SC2086 # a list of words
    run_tests $tests >"$dir/out" 2>&1
    rc=$? # a crash is noticed, too; 99: it was not built
    if [ $rc = 77 ]; then
        echo "SKIP $file: $edit (oclgrind cannot be used)"
    elif [ $rc != 0 ] && [ $rc != 99 ]; then
        killed=$((killed + 1))
        echo "ok $file: $edit"
    else
        alive=$((alive + 1))
        echo "FAIL $file survives $tests: $edit"
        tail -n 3 "$dir/out"
    fi
done <<'END'
common.clh|numbers|s/0xfff + ((u/0x1000 + ((u/
common.clh|numbers|s/r > 65504.0f ? INFINITY : r/r/
common.clh|numbers|s/(a + 0.5f) - 0.5f/a/
common.clh|numbers|s/u >= 0x47800000u ? 0x7f800000u : 0u/0u/
common.clh|numbers|s/x < -104.0f/x < -87.0f/
common.clh|numbers|s/2.12194440e-4f/2.1219e-4f/
common.clh|--small norm_rounding|s/as_int16(a \* id + 12582912.0f)/as_int16(round(a * id) + 12582912.0f)/
common.clh|--small norm|s/ + qw_add16(a \* 0.0f + b \* 0.0f)//
common.clh|--small norm|s/& 0xffff) | qw_sum16/\& 0x7fff) | qw_sum16/
common.clh|--small gdn_gates|s/x > 20.0f ? x : //
blocks.clh|embed|s/qw_half_at(g + 2336, lane)/qw_half_at(g + 2304, lane)/
blocks.clh|embed|s/(high & 3) << 4/(high \& 1) << 4/
generic/embed.cl|embed|s/id >= end/id > end/
generic/embed.cl|embed|s/id < first || //
generic/embed.cl|embed|s/row >= cycle\[QW_CYC_ROWS\] || id/id/
generic/norm.cl|--small norm|s/cycle\[QW_CYC_FIRST\] + row/row/
generic/norm.cl|--small norm|s/(float)n + eps/(float)n/
generic/norm.cl|norm|s/b < n \/ 32; b += QW_ROW_WG/b < min(n \/ 32, QW_ROW_WG); b += QW_ROW_WG/
generic/norm.cl|--small norm|s/row >= cycle\[QW_CYC_ROWS\]/row > cycle[QW_CYC_ROWS]/
generic/norm.cl|--small norm|/for (int step/,/^    }/s/barrier(CLK_LOCAL_MEM_FENCE);//
generic/norm.cl|--small norm_into|s/((size_t)row \* ld + col) \/ 32 + b;/(size_t)row * (ld \/ 32) + b;/
generic/norm.cl|--small hidden|s/(pos - 1) % QW_HIDDEN_RING/pos % QW_HIDDEN_RING/
generic/norm.cl|--small hidden|s/: pos > 0 ?/: pos > 1 ?/
generic/norm.cl|--small hidden|s/x\[(size_t)(row - 1) \* n + i\]/x[(size_t)row * n + i]/
generic/norm.cl|oclgrind hidden|s/ || row < rows - QW_HIDDEN_RING//
generic/accept.cl|--small draft_steps|s/best\[1\] == 1 \&\& !(p_min/!(p_min/
generic/accept.cl|--small draft_steps|s/prob\[0\] < p_min/prob[0] < 2.0f * p_min/
generic/accept.cl|--small draft_steps|s/    step\[QW_CYC_POS\]++;//
generic/swiglu.cl|--small swiglu|s/qw_silu16(vload16(1, g)) \* vload16(1, u)/qw_silu16(vload16(1, u)) * vload16(1, g)/
generic/swiglu.cl|swiglu|s/ || b >= n \/ 32//
common.clh|--small argmax|s/as_uint(v + 0.0f)/as_uint(v)/
common.clh|argmax|s/a.y < b.y ? a : b/a.y > b.y ? a : b/
generic/accept.cl|--small verify_begin|s/cycle\[QW_CYC_ROWS\] - 1));/cycle[QW_CYC_ROWS]));/
generic/accept.cl|--small verify_begin|s/max(0, min(draft/(min(draft/
generic/accept.cl|--small verify_begin|s/cycle\[QW_CYC_IDS + 1 + i\] =/cycle[QW_CYC_IDS + i] =/
generic/accept.cl|--small verify_begin|s/    head\[QW_CYC_ROWS\] = k + 1;//
generic/accept.cl|--small accepting|s/more = n + 1 < rows \&\& /more = /
generic/accept.cl|--small accepting|s/more = n + 1 < rows /more = n + 2 < rows /
generic/accept.cl|--small accepting|s/finite \&= best/finite = best/
generic/accept.cl|--small accepting|s/= rows - 1;/= rows;/
generic/accept.cl|--small accepting|s/cycle\[QW_CYC_POS\] + n;/cycle[QW_CYC_POS] + n - 1;/
generic/accept.cl|--small accepting|s/QW_RES_IDS + n - 1\]/QW_RES_IDS]/
generic/accept.cl|--small draft_end|s/(int)QW_MAX_DRAFT)/(int)QW_MAX_DRAFT + 1)/
generic/accept.cl|--small draft_end|s/best\[2 \* n + 1\] == 1 \&\&/true \&\&/
generic/accept.cl|--small draft_end|s/prob\[n\] < p_min/prob[n] < 0.5f * p_min/
generic/accept.cl|--small draft_end|s/n < n_min ? 0 : n/n <= n_min ? 0 : n/
generic/accept.cl|--small draft_end|s/n < n_min ? 0 : n/n/
generic/norm.cl|--small tap|s/(cycle\[QW_CYC_TAP\] + row)/(size_t)row/
generic/norm.cl|--small tap|s/ \* ld + col) \/ 32/ * ld) \/ 32/
generic/norm.cl|--small tap|s/b >= n \/ 32)/b >= n \/ 32 - 1)/
generic/argmax.cl|--small top10|s/enum { QW_TEN = 10 }/enum { QW_TEN = 9 }/
generic/argmax.cl|--small top10|s/enum { QW_TEN = 10 }/enum { QW_TEN = 11 }/
generic/argmax.cl|--small top10|s/zero += v \* 0.0f;//
generic/argmax.cl|--small top10|s/zero += bad\[i\];//
generic/argmax.cl|--small top10|s/v > mine\[at - 1\]/v < mine[at - 1]/
generic/argmax.cl|--small top10|s/k < min((int)QW_TEN, n)/k < QW_TEN - 1/
generic/argmax.cl|argmax|s/min(n, (chunk + 1)/min(n - 1, (chunk + 1)/
generic/argmax.cl|argmax|s/i < chunks; i += QW_ROW_WG/i < min(chunks, QW_ROW_WG); i += QW_ROW_WG/
common.clh|--small argmax|s/isfinite(v)/!isnan(v)/
generic/conv.cl|--small conv|s/back = QW_TAPS - 1 - j/back = j/
generic/conv.cl|--small conv|s/back <= row/back < row/
generic/conv.cl|--small conv|s/back <= pos/back < pos/
generic/conv.cl|conv|s/(pos - back) % QW_CONV_RING/(pos - back) % (QW_CONV_RING - 1)/
generic/conv.cl|--small conv|s/head < nq/head < nq - 1/
generic/conv.cl|--small l2_norm|s/sqrt(s + eps)/fmax(sqrt(s), eps)/
generic/conv.cl|--small conv|/part\[lane\]/,/float s/s/barrier(CLK_LOCAL_MEM_FENCE);//
generic/gdn.cl|--small gdn|s/e = head % nk/e = head * nk \/ nv/
generic/gdn.cl|--small gdn|s/beta \* (v - /(beta * v - /
generic/gdn.cl|--small gdn|s/(float)QW_DK + eps/(float)QW_DK/
generic/gdn.cl|--small gdn|s/c0 = fma(from\[j \* 16\] \* decay/c0 = fma(from[j * 16]/
generic/gdn.cl|--small gdn|s/vload16(i + 3, from) \* decay/vload16(i + 3, from)/
generic/gdn.cl|--small gdn_tape|s/t <= sure ? Sh/t < sure ? Sh/
generic/gdn.cl|--small gdn_tape|s/t < sure ? Sh/t <= sure ? Sh/
generic/gdn.cl|--small gdn_tape|s/(t <= sure ? S : X)/(t < sure ? S : X)/
generic/gdn.cl|--small gdn_tape|s/vload16(i, S) \* decay), i, S/vload16(i, S)), i, S/
generic/gdn.cl|--small gdn_tape|s/vload16(s, tp + (nk + head)/vload16(s, tp + (nk + e)/
generic/gdn.cl|--small gdn_tape|s/p = cycle\[QW_CYC_STORED\]; p < pos/p = cycle[QW_CYC_STORED]; p < pos - 1/
gdn.clh|gdn_tape|s/pos % QW_TAPE_RING/pos % (QW_TAPE_RING \/ 4)/
generic/gdn.cl|--small gdn_tape|s/if (head < nk)/if (head < nk - 1)/
gdn.clh|gdn_splits|s/max(0, rows - QW_CONV_RING)/max(0, rows - QW_CONV_RING + 1)/
gdn.clh|--small gdn|s/+ heads - 1) \/ heads/) \/ heads/
generic/gdn.cl|gdn|/a0, b0, &decay, &beta);/,/float c0/s/barrier(CLK_LOCAL_MEM_FENCE);//
generic/gdn.cl|oclgrind gdn|s/barrier(CLK_GLOBAL_MEM_FENCE);//
xe2/gdn.cl|--small gdn_tape|s/t == sure \&\& /t == sure + 1 \&\& /
xe2/gdn.cl|--small gdn_tape|s/rows <= sure \&\& /rows < sure \&\& /
xe2/gdn.cl|--small gdn_tape|s/rows > 0 || stored < pos/rows > 0/
xe2/gdn.cl|--small gdn_tape|s/s\[i\] \* decay);/s[i]);/
xe2/gdn.cl|--small gdn_tape|s/t >= sure \&\& chain == 0/t > sure \&\& chain == 0/
xe2/gdn.cl|--small gdn_tape|s/if (head < nk)/if (head < nk - 1)/
xe2/gdn.cl|--small gdn|s/(part\[32\] + part\[48\])/part[32] + part[48]/
xe2/gdn.cl|--small gdn|s/e = head % nk/e = head * nk \/ nv/
xe2/gdn.cl|--small gdn|s/total += kept\[16 \* sub + i\]/total += kept[i]/
xe2/gdn.cl|gdn_splits|s/decays\[t - t0\]/decays[t % QW_SUBS]/
xe2/gdn.cl|oclgrind gdn|/kept\[item\] = sum_k/,/const float v/s/barrier(CLK_LOCAL_MEM_FENCE);//
xe2/quant.clh|--small gdn|s/(both - (int)(short)both)/both/
xe2/quant.clh|--small gdn_gates|s/most < 0x7f800000u ?/true ?/
generic/rope.cl|rope_rows|s/pos < p1)/pos <= p1)/
generic/rope.cl|--small qk|s/-(b \* si)/b * si/
generic/rope.cl|--small qk|s/x\[i + half_rot\], co/x[i + half_rot - 1], co/
generic/rope.cl|--small qk|s/if (!isq && (place < p0 || place >= p1))/if (!isq \&\& place < p0)/
generic/rope.cl|qk|s/(QW_HD & -QW_HD) : 64/64 : 64/
generic/rope.cl|qk|s/QW_HD % 64 ? 1 : //
generic/rope.cl|--small qk|s/qw_round_half(top \/ 127.0f) + bad/qw_round_half(top \/ 127.0f)/
generic/rope.cl|--small qk|s/(gated ? 2 : 1) \* QW_HD/1 * QW_HD/
generic/rope.cl|--small qk_draft|s/(gated ? 2 : 1) \* QW_HD/2 * QW_HD/
generic/rope.cl|--small qk_draft|s/ % (blocks \* QW_ATTN_BLOCK)//
generic/rope.cl|qk_draft|s/ % (blocks \* QW_ATTN_BLOCK)/ \& (blocks * QW_ATTN_BLOCK - 1)/
generic/attn.cl|--small attn|s/causal ? row + 1/causal ? row/
generic/attn.cl|--small attn|s/(causal ? row + 1 : cycle\[QW_CYC_ROWS\])/cycle[QW_CYC_ROWS]/
generic/attn.cl|--small attn_draft|s/(causal ? row + 1 : cycle\[QW_CYC_ROWS\])/(row + 1)/
generic/attn.cl|attn_draft|s/row + 1 - window/row - window/
generic/attn.cl|attn_seen|s/row + 1 - window/row - window/
generic/attn.cl|attn_draft|s/row + 1 - window/row + 2 - window/
generic/attn.cl|attn_seen|s/row + 1 - window/row + 2 - window/
generic/attn.cl|attn_draft|s/ + row + 1 - window/ + 1 - window/
generic/attn.cl|attn_draft|s/window > 0 ? max(0, /window > 0 ? max(-1000, /
generic/attn.cl|attn_draft|s/last - (last - place + blocks) % blocks/place/
generic/attn.cl|ring|s/(last - place + blocks) % blocks/(last - place + blocks) % (blocks - 1)/
generic/attn.cl|ring|s/last = (cycle\[QW_CYC_POS\] + cycle\[QW_CYC_ROWS\] - 1)/last = cycle[QW_CYC_POS]/
generic/attn.cl|attn_draft|s/int j = from; j < n; j++/int j = 0; j < n; j++/
generic/attn.cl|attn_draft|s/t = from \/ QW_KV_TILE/t = (from + QW_KV_TILE - 1) \/ QW_KV_TILE/
generic/attn.cl|attn_draft|s/seen = i >= from && i < n/seen = i < n/
generic/attn.cl|ring|s/place0 = first % blocks/place0 = first/
generic/attn.cl|attn_draft|s/first = qw_attn_from(cycle, row, window) \/ QW_ATTN_BLOCK/first = 0/
generic/attn.cl|attn_draft|s/first = qw_attn_from(cycle, row, window) \/ QW_ATTN_BLOCK/first = (qw_attn_from(cycle, row, window) + 1) \/ QW_ATTN_BLOCK/
generic/attn.cl|ring|s/place + 1 < blocks ? place + 1 : 0/place + 1/
generic/attn.cl|--small attn|s/if (gated)/if (false)/
generic/attn.cl|--small attn|s/head = kv \* group + g/head = g * kv_heads + kv/
generic/attn.cl|attn|s/chain\[j % QW_KV_TILE\] += p\[j\]/chain[j % 8] += p[j]/
generic/attn.cl|--small attn|s/p\[j\] = qw_exp(p\[j\] - top)/p[j] = qw_exp(p[j])/
generic/attn.cl|attn|s/p\[i\] = seen ? qw_exp(s - top) : 0.0f;/&\n        if (i == 0) p[i] = 0.0f;/
generic/attn.cl|--small attn|s/QW_ATTN_BLOCK + 1 - first/QW_ATTN_BLOCK - first/
generic/attn.cl|--small attn|s/x\[i\] \*= qw_sigmoid/x[i] *= qw_silu/
generic/attn.cl|--small attn|s/vload4(lane, x) \* 0.125f/vload4(lane, x)/
generic/attn.cl|--small attn|s/size_t)(row - row0) \* heads + head) \* blocks;/size_t)row * heads + head) * blocks;/
generic/attn.cl|attn|s/d < QW_HD; d += QW_ATTN_BLOCK/d < min(QW_HD, QW_ATTN_BLOCK); d += QW_ATTN_BLOCK/
generic/attn.cl|attn|s/at \* (QW_HD \/ 32) + d \/ 32/at * (QW_HD \/ 32)/
END
echo "$killed passed, $alive failed"
[ $alive = 0 ]
