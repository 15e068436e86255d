#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write quant.bin: blocks and what the reference makes of them, for test_quant.c.
usage: make_quant.py OUT
Records, little-endian: u32 kind, u32 type id, u32 elements, u32 bytes of input, u32 bytes of output;
input; output. Kinds: 0 decode (blocks -> f32), 1 encode (f32 -> blocks), 2 activation (f32 -> per
block of 32: 32 i8, then the scale as f32), 3 a decode trap, made by hand."""
import os
import struct
import sys
import numpy as np
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'oracle'))
from ggufio import TYPES, dequantise, quantise

DECODE, ENCODE, ACT, TRAP = range(4)
KINDS = ('F32', 'F16', 'BF16', 'Q4_0', 'Q4_1', 'Q5_0', 'Q5_1', 'Q8_0', 'Q4_K', 'Q5_K', 'Q6_K')
SCALES = {'Q4_0': [0], 'Q4_1': [0, 2], 'Q5_0': [0], 'Q5_1': [0, 2], 'Q8_0': [0], 'Q4_K': [0, 2],
          'Q5_K': [0, 2], 'Q6_K': [208]}          # where the halves of a block lie
out = []


def record(kind, name, n, src, dst):
    out.append(struct.pack('<5I', kind, TYPES[name][0], n, len(src), len(dst)) + src + dst)


def decode(name, raw, kind=DECODE):
    raw = np.ascontiguousarray(raw, np.uint8).ravel()
    n = len(raw) // TYPES[name][2] * TYPES[name][1]
    record(kind, name, n, raw.tobytes(), dequantise(name, raw).astype('<f4').tobytes())


def halves(rng, n):
    """Finite halves of every size: subnormal, zero, negative, largest."""
    h = rng.integers(0, 0x7c00, n).astype(np.uint16) | (rng.integers(0, 2, n) << 15).astype(np.uint16)
    h[:6] = (0x0001, 0x8001, 0x0000, 0x7bff, 0x03ff, 0x3c00)[:len(h[:6])]
    return h


def random_blocks(rng, name, count):
    b = rng.integers(0, 256, (count, TYPES[name][2])).astype(np.uint8)
    for at in SCALES.get(name, []):
        h = halves(rng, count)
        if at == 2:
            h = np.roll(h, 3)
        b[:, at:at + 2] = h.astype('<u2').view(np.uint8).reshape(-1, 2)
    if name == 'F16':
        return halves(rng, count * 8).astype('<u2').view(np.uint8)
    if name in ('F32', 'BF16'):
        f = (rng.standard_normal(count * 8) * 10.0 ** rng.integers(-38, 38, count * 8)).astype('<f4')
        return f.view(np.uint8) if name == 'F32' else f.view('<u2')[1::2].copy().view(np.uint8)
    return b


def half(x):
    return list(np.array([x], '<f2').view(np.uint8))


def traps():
    q = [0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe] * 2
    decode('Q4_0', half(1) + q, TRAP)                                   # split halves, not pairs
    decode('Q4_0', [1, 0] + q, TRAP)                                    # subnormal scale
    for name, n in (('Q5_0', 0), ('Q5_1', 1)):
        for bit in range(32):                                           # one high bit at a time
            decode(name, half(1) + half(0.5) * n + list(struct.pack('<I', 1 << bit)) + [0] * 16, TRAP)
    sc, mn = [1, 2, 3, 4, 17, 34, 51, 63], [63, 5, 6, 7, 40, 21, 33, 18]
    s = [0] * 12
    for j in range(4):
        s[j] = sc[j] | (sc[j + 4] >> 4) << 6
        s[j + 4] = mn[j] | (mn[j + 4] >> 4) << 6
        s[j + 8] = (sc[j + 4] & 15) | (mn[j + 4] & 15) << 4
    ramp = [l | (l & 15) << 4 for l in range(16)] + [l | (15 - l) << 4 for l in range(16)]
    decode('Q4_K', half(1) + half(1) + s + ramp * 4, TRAP)              # all pairs distinct
    decode('Q5_K', half(1) + half(1) + s + list(range(0, 256, 8)) + ramp * 4, TRAP)
    decode('Q4_K', half(1) + half(0) + [1] * 4 + [0] * 4 + [1] * 4 + list(range(128)), TRAP)
    decode('Q6_K', list(range(128)) + list(range(64)) + [(i * 37 + 130) & 255 for i in range(16)] + half(.25),
           TRAP)                                                        # negative scales, all groups


def floats(rng, blocks):
    x = (rng.standard_normal((blocks, 32)) * 10.0 ** rng.integers(-4, 4, (blocks, 1))).astype(np.float32)
    x[0] = 0
    x[1] = [127, .5, -.5, 1.5, -1.5, 2.5, -2.5, 126.5] * 4              # ties
    x[2] = [-8, 8] * 16                                                 # first of two extremes
    x[3] = [8, -8] * 16
    x[4] = np.linspace(-1, 1, 32)
    x[5] = 6e4 * x[4]                                                   # scales near the top
    x[6] = 0
    x[6, 31] = -3e-7                                                    # scale rounds to a subnormal
    return x


def act(x):
    amax = np.abs(x).max(1, keepdims=True)
    inv = np.divide(np.float32(127), amax, out=np.zeros_like(amax), where=amax > 0)
    q = np.rint(x * inv).astype(np.int8)
    d = (amax / np.float32(127)).astype('<f2').astype('<f4')
    return b''.join(q[i].tobytes() + d[i].tobytes() for i in range(len(x)))


def main():
    rng = np.random.default_rng(35)
    for name in KINDS:
        decode(name, random_blocks(rng, name, 16 if TYPES[name][1] == 256 else 64))
    traps()
    x = floats(rng, 200)
    for name in ('Q8_0', 'Q4_0'):
        record(ENCODE, name, x.size, x.astype('<f4').tobytes(), quantise(name, x))
    y = np.concatenate([x.ravel()[:1200], rng.integers(0, 0x7f800000, 600).astype(np.uint32).view(np.float32),
                        (2.0 ** -24 * rng.integers(0, 4096, 400) / 2).astype(np.float32),      # ties of subnormals
                        np.float32([65504, 65519.996, 65520, 65536, 6e-8, 2.9802322e-08, 2.980233e-08, -0.0])])
    y[1200:1800:2] *= -1
    with np.errstate(over='ignore'):
        for name in ('F32', 'F16', 'BF16'):
            record(ENCODE, name, y.size, y.astype('<f4').tobytes(), quantise(name, y))
    record(ACT, 'Q8_0', x.size, x.astype('<f4').tobytes(), act(x))
    with open(sys.argv[1], 'wb') as f:
        f.write(b''.join(out))


if __name__ == '__main__':
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()
