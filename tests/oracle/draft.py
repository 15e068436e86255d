# SPDX-License-Identifier: MIT
"""DFlash drafts of a pair of files, block by block, by the float64 reference: for each golden prompt the loop of
propose, compare, move on over its greedy ids, at several n_max.
usage: draft.py TARGET DRAFT PROMPTS.json OUT.json exact|act q4_0|q8_0 N_MAX...
act: products of block types round their input to Q8 blocks, as this engine's do, and caches round K and V to F16.
OUT: {prompt: {n_max: [[position, accepted, ids, margins], ...]}}; a margin is that of a row's two largest logits."""
import json
import sys
import ref


def mm(s, x, n):
    return (x if s.types[n] in ('F32', 'F16', 'BF16') else ref.q8(x)) @ s[n].T


def f16_cache(q, K, V, *rest, **more):
    half = lambda x: x.astype(ref.np.float16).astype(ref.np.float64)
    return plain(q, half(K), half(V), *rest, **more)


plain = ref.attention
if sys.argv[5] == 'act':
    ref.Weights.mm = mm
    ref.attention = f16_cache


def cycles(d, K, V, line, n, m):
    """Blocks of m masks behind position n of the timeline; the caches hold the whole of it."""
    out = []
    while n < len(line) - 1:
        d.n, d.K, d.V = n, [k[:n] for k in K], [v[:n] for v in V]
        rows = d.block([line[n]] + [d.kv['tokenizer.ggml.mask_token_id']] * m)[1:]
        ids = rows.argmax(1).tolist()
        two = -ref.np.partition(-rows, 1, axis=1)[:, :2]
        a = 0
        while a < m and n + 1 + a < len(line) and ids[a] == line[n + 1 + a]:
            a += 1
        out.append([n, a, ids, [float(x) for x in two[:, 0] - two[:, 1]]])
        n += a + 1
    return out


def main():
    t = ref.Target(sys.argv[1])
    result = {}
    for p in json.load(open(sys.argv[3]))['prompts']:
        t.reset()
        d = ref.Draft(sys.argv[2], t)
        line = p['ids'] + p[sys.argv[6]]['llama_greedy']
        d.inject(t.forward(line, taps=d.taps)[2])
        K, V = d.K, d.V
        result[p['name']] = {m: cycles(d, K, V, line, len(p['ids']), int(m)) for m in sys.argv[7:]}
    json.dump(result, open(sys.argv[4], 'w'))


main()
