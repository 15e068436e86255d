# SPDX-License-Identifier: MIT
"""Logits of a target file by the float64 reference, with the rounding of this engine where it is not llama.cpp's:
products of block types round their input to Q8 blocks and float types do not; an F16 cache rounds K and V but not q.
usage: engine.py FILE OUT.f32 exact|f16|q8rot [rows, 40]"""
import sys
import numpy as np
import ref


def mm(s, x, n):
    return (x if s.types[n] in ('F32', 'F16', 'BF16') else ref.q8(x)) @ s[n].T


def half(x):
    return x.astype(np.float16).astype(np.float64)


def f16_cache(q, K, V, *rest, **more):
    return plain(q, half(K), half(V), *rest, **more)


plain = ref.attention
ref.Weights.mm = mm
if sys.argv[3] == 'f16':
    ref.attention = f16_cache
elif sys.argv[3] == 'q8rot':
    ref.KVMODE = 'q8rot'
t = ref.Target(sys.argv[1])
rows = int(sys.argv[4]) if len(sys.argv) > 4 else 40
t.forward([(i * 37 + 11) % len(t.W['token_embd.weight']) for i in range(rows)])[0].astype('<f4').tofile(sys.argv[2])
