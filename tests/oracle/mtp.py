# SPDX-License-Identifier: MIT
"""Drafts of the MTP block by the float64 reference: for each place n, tokens 0..n-1 are in the cache, token n is the
newest, and every pass feeds its best token and its normed row to the next. Writes [place][pass][id, margin, top-10 p].
usage: mtp.py FILE OUT.f32 exact|f16 PASSES PLACE..."""
import sys
import numpy as np
import ref


def half(x):
    return x.astype(np.float16).astype(np.float64)


def f16_cache(q, K, V, *rest, **more):
    return plain(q, half(K), half(V), *rest, **more)


plain = ref.attention
t = ref.Target(sys.argv[1])
passes, places = int(sys.argv[4]), [int(x) for x in sys.argv[5:]]
toks = [(i * 37 + 11) % len(t.W['token_embd.weight']) for i in range(max(places) + 1)]
hidden = t.forward(toks)[1]
if sys.argv[3] == 'f16':                           # of the drafter alone: the target above stays exact
    ref.attention = f16_cache
out = []
for n in places:
    ids, h = toks[:n + 1], [np.zeros(t.E)] + list(hidden[:n])
    for _ in range(passes):
        logits, m = t.mtp(ids, np.array(h), np.arange(len(ids)))
        top = np.sort(logits[-1])[::-1][:10]
        ids.append(int(logits[-1].argmax()))
        h.append(m[-1])
        out.append([ids[-1], top[0] - top[1], 1 / np.exp(top - top[0]).sum()])
np.array(out).astype('<f4').tofile(sys.argv[2])
