# SPDX-License-Identifier: MIT
"""Small GGUF v3 reader/writer and block (de)quantisers, written from gguf.md.  Needs numpy only."""
import struct
import numpy as np
U8, I8, U16, I16, U32, I32, F32, BOOL, STR, ARR, U64, I64, F64 = range(13)
FMT = {U8: 'B', I8: 'b', U16: 'H', I16: 'h', U32: 'I', I32: 'i', F32: 'f', BOOL: '?', U64: 'Q', I64: 'q', F64: 'd'}
# name: (type id, elements per block, bytes per block)
TYPES = {'F32': (0, 1, 4), 'F16': (1, 1, 2), 'Q4_0': (2, 32, 18), 'Q4_1': (3, 32, 20), 'Q5_0': (6, 32, 22), 'Q5_1': (7, 32, 24),
         'Q8_0': (8, 32, 34), 'Q2_K': (10, 256, 84), 'Q3_K': (11, 256, 110), 'Q4_K': (12, 256, 144), 'Q5_K': (13, 256, 176),
         'Q6_K': (14, 256, 210), 'IQ4_NL': (20, 32, 18), 'IQ4_XS': (23, 256, 136), 'BF16': (30, 1, 2), 'MXFP4': (39, 32, 17)}
BYID = {v[0]: (k,) + v[1:] for k, v in TYPES.items()}


# ---------------------------------------------------------------- container
def _s(x):
    b = x.encode() if isinstance(x, str) else x
    return struct.pack('<Q', len(b)) + b


def _val(t, v):
    if t == STR:
        return _s(v)
    if isinstance(t, tuple):                       # (ARR, element type)
        return struct.pack('<IQ', t[1], len(v)) + b''.join(_val(t[1], x) for x in v)
    return struct.pack('<' + FMT[t], v)


def write(path, kv, tensors, align=32):
    """kv: list of (key, type or (ARR, type), value); tensors: dict name -> (type name, float array in row-major order)."""
    pad = lambda n: (n + align - 1) // align * align
    h = b'GGUF' + struct.pack('<Iqq', 3, len(tensors), len(kv))
    for k, t, v in kv:
        h += _s(k) + struct.pack('<I', ARR if isinstance(t, tuple) else t) + _val(t, v)
    blobs, off = [], 0
    for n, (tn, a) in tensors.items():
        b = quantise(tn, a)
        h += _s(n) + struct.pack('<I', a.ndim) + b''.join(struct.pack('<q', d) for d in a.shape[::-1])
        h += struct.pack('<IQ', TYPES[tn][0], off)
        blobs.append(b + bytes(pad(len(b)) - len(b)))
        off += len(blobs[-1])
    with open(path, 'wb') as f:
        f.write(h + bytes(pad(len(h)) - len(h)))
        for b in blobs:
            f.write(b)


def read(path, want_tensors=True):
    d = open(path, 'rb').read()
    p = 4
    assert d[:4] == b'GGUF'

    def g(f):
        nonlocal p
        r = struct.unpack_from('<' + f, d, p)
        p += struct.calcsize('<' + f)
        return r[0]

    def s():
        nonlocal p
        n = g('Q')
        p += n
        return d[p - n:p]

    def val(t):
        if t == STR:
            return s()
        if t == ARR:
            e, n = g('I'), g('Q')
            return [val(e) for _ in range(n)]
        return g(FMT[t])
    assert g('I') in (2, 3)
    nt, nk = g('q'), g('q')
    kv = {}
    for _ in range(nk):
        k = s().decode()
        kv[k] = val(g('I'))
    info = []
    for _ in range(nt):
        n = s().decode()
        ne = [g('q') for _ in range(g('I'))]
        info.append((n, ne, g('I'), g('Q')))
    al = kv.get('general.alignment', 32)
    base = (p + al - 1) // al * al
    out, types = {}, {}
    for n, ne, t, off in info if want_tensors else []:
        tn, bl, by = BYID[t]
        types[n] = tn
        cnt = int(np.prod(ne))
        raw = np.frombuffer(d, np.uint8, cnt // bl * by, base + off)
        out[n] = dequantise(tn, raw).reshape(ne[::-1])
    return kv, out, types


# ---------------------------------------------------------------- quantise (only the types the tiny models use)
def quantise(tn, a):
    x = np.ascontiguousarray(a, np.float32)
    if tn == 'F32':
        return x.tobytes()
    if tn == 'F16':
        return x.astype('<f2').tobytes()
    if tn == 'BF16':
        u = x.view(np.uint32).astype(np.uint64)
        return ((u + 0x7fff + ((u >> 16) & 1)) >> 16).astype('<u2').tobytes()
    x = x.reshape(-1, 32)
    if tn == 'Q8_0':
        am = np.abs(x).max(1, keepdims=True)
        d = (am / np.float32(127)).astype(np.float32)
        i = np.divide(np.float32(1), d, out=np.zeros_like(d), where=d > 0)
        y = x * i
        q = (np.sign(y) * np.floor(np.abs(y) + np.float32(.5))).astype(np.int8)      # half away from zero
        return np.concatenate([d.astype('<f2').view(np.uint8), q.view(np.uint8)], 1).tobytes()
    if tn == 'Q4_0':
        m = np.take_along_axis(x, np.abs(x).argmax(1)[:, None], 1)                   # signed value of largest magnitude
        d = (m / np.float32(-8)).astype(np.float32)
        i = np.divide(np.float32(1), d, out=np.zeros_like(d), where=d != 0)
        q = np.minimum(15, np.trunc(x * i + np.float32(8.5))).astype(np.uint8)
        return np.concatenate([d.astype('<f2').view(np.uint8), q[:, :16] | (q[:, 16:] << 4)], 1).tobytes()
    raise ValueError(tn)


# ---------------------------------------------------------------- dequantise
NL = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)
MX = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.float32)


def _h(b, o):
    return b[:, o:o + 2].copy().view('<f2').astype(np.float32)


def _nib(q):                                       # 16 bytes -> 32 values: low nibbles first
    return np.concatenate([q & 15, q >> 4], 1)


def _k4(s):                                        # 12 packed bytes -> 8 scales, 8 mins (6 bits each)
    sc, mn = np.zeros((len(s), 8), np.float32), np.zeros((len(s), 8), np.float32)
    for j in range(8):
        if j < 4:
            sc[:, j], mn[:, j] = s[:, j] & 63, s[:, j + 4] & 63
        else:
            sc[:, j] = (s[:, j + 4] & 15) | ((s[:, j - 4] >> 6) << 4)
            mn[:, j] = (s[:, j + 4] >> 4) | ((s[:, j] >> 6) << 4)
    return sc, mn


def dequantise(tn, raw):
    if tn == 'F32':
        return raw.view('<f4').copy()
    if tn == 'F16':
        return raw.view('<f2').astype(np.float32)
    if tn == 'BF16':
        return (raw.view('<u2').astype(np.uint32) << 16).view(np.float32)
    b = raw.reshape(-1, TYPES[tn][2])
    n = len(b)
    e = np.arange(256)
    if tn == 'Q4_0':
        return ((_nib(b[:, 2:18]).astype(np.float32) - 8) * _h(b, 0)).ravel()
    if tn == 'Q4_1':
        return (_nib(b[:, 4:20]).astype(np.float32) * _h(b, 0) + _h(b, 2)).ravel()
    if tn in ('Q5_0', 'Q5_1'):
        o = 2 if tn == 'Q5_0' else 4
        bit = np.unpackbits(b[:, o:o + 4].copy(), axis=1, bitorder='little')
        q = (_nib(b[:, o + 4:o + 20]) | (bit << 4)).astype(np.float32)
        return ((q - 16) * _h(b, 0) if o == 2 else q * _h(b, 0) + _h(b, 2)).ravel()
    if tn == 'Q8_0':
        return (b[:, 2:].copy().view(np.int8).astype(np.float32) * _h(b, 0)).ravel()
    if tn == 'IQ4_NL':
        return (NL[_nib(b[:, 2:18])] * _h(b, 0)).ravel()
    if tn == 'MXFP4':
        return (MX[_nib(b[:, 1:17])] * np.ldexp(np.float32(.5), b[:, :1].astype(np.int32) - 127)).ravel()
    if tn in ('Q4_K', 'Q5_K'):
        sc, mn = _k4(b[:, 4:16])
        j, l = e // 32, e % 32
        qs = b[:, 16:144] if tn == 'Q4_K' else b[:, 48:176]
        q = (qs[:, 32 * (j // 2) + l] >> (4 * (j % 2))) & 15
        if tn == 'Q5_K':
            q = q | (((b[:, 16:48][:, l] >> j) & 1) << 4)
        return (_h(b, 0) * sc[:, j] * q - _h(b, 2) * mn[:, j]).ravel()
    if tn == 'Q6_K':
        k, r = e // 128, e % 128
        g, l = r // 32, r % 32
        lo = (b[:, 64 * k + 32 * (g & 1) + l] >> (4 * (g >> 1))) & 15
        hi = (b[:, 128 + 32 * k + l] >> (2 * g)) & 3
        sc = b[:, 192:208].copy().view(np.int8).astype(np.float32)
        return (_h(b, 208) * sc[:, e // 16] * ((lo | (hi << 4)).astype(np.float32) - 32)).ravel()
    if tn == 'Q2_K':
        k, r = e // 128, e % 128
        q = (b[:, 16 + 32 * k + r % 32] >> (2 * (r // 32))) & 3
        s = b[:, :16][:, e // 16]
        return (_h(b, 80) * (s & 15) * q - _h(b, 82) * (s >> 4)).ravel()
    if tn == 'Q3_K':
        k, r = e // 128, e % 128
        g, l = r // 32, r % 32
        q = ((b[:, 32 + 32 * k + l] >> (2 * g)) & 3).astype(np.float32) - 4 * (1 - ((b[:, l] >> (4 * k + g)) & 1).astype(np.float32))
        s = b[:, 96:108]
        sc = np.zeros((n, 16), np.float32)
        for j in range(16):
            lo = s[:, j] & 15 if j < 8 else s[:, j - 8] >> 4
            sc[:, j] = (lo | (((s[:, 8 + j % 4] >> (2 * (j // 4))) & 3) << 4)).astype(np.float32) - 32
        return (_h(b, 108) * sc[:, e // 16] * q).ravel()
    if tn == 'IQ4_XS':
        sh = b[:, 2:4].copy().view('<u2').astype(np.int32)[:, 0]
        out = np.zeros((n, 8, 32), np.float32)
        for j in range(8):
            ls = ((b[:, 4 + j // 2] >> (4 * (j % 2))) & 15).astype(np.int32) | (((sh >> (2 * j)) & 3) << 4)
            out[:, j] = NL[_nib(b[:, 8 + 16 * j:24 + 16 * j])] * (_h(b, 0)[:, 0] * (ls - 32))[:, None]
        return out.ravel()
    raise ValueError(tn)
