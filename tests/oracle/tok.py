# SPDX-License-Identifier: MIT
"""Tokenizer reference for tokenizer.ggml.pre = qwen35, written from tokenizer.md.
usage: tok.py MODEL.gguf [--special] < text      prints the ids
Unicode classes come from Python's unicodedata (its version decides a few code points; see tokenizer.md)."""
import sys
import unicodedata
from ggufio import read
WS = {0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, *range(9, 14), *range(0x2000, 0x200B)}


def cls(c):                                        # 'L', 'M', 'N', 'S' (white space), 'O' (other), None at the end
    if c is None:
        return None
    if c in WS:
        return 'S'
    k = unicodedata.category(chr(c))[0]
    return k if k in 'LMN' else 'O'


def split(cp):
    """list of code points -> list of (begin, end)"""
    out, i, n = [], 0, len(cp)
    at = lambda k: cp[k] if k < n else None
    lm = lambda k: cls(at(k)) in ('L', 'M')
    low = lambda k: (at(k) | 32) if at(k) is not None and 65 <= at(k) <= 90 else (0x6B if at(k) == 0x212A else at(k))

    def emit(j):
        nonlocal i
        out.append((i, j))
        i = j
    while i < n:
        c = cp[i]
        if c == 0x27:
            a, b = low(i + 1), low(i + 2)
            if a in (0x73, 0x74, 0x6D, 0x64):
                emit(i + 2)
                continue
            if (a, b) in ((0x72, 0x65), (0x76, 0x65), (0x6C, 0x6C)):
                emit(i + 3)
                continue
        if c not in (13, 10) and cls(c) != 'N' and (lm(i) or lm(i + 1)):
            j = i + 1
            while lm(j):
                j += 1
            emit(j)
            continue
        if cls(c) == 'N':
            emit(i + 1)
            continue
        j = i + (c == 0x20)
        if cls(at(j)) == 'O':
            while cls(at(j)) == 'O':
                j += 1
            while at(j) in (13, 10):
                j += 1
            emit(j)
            continue
        j, last = i, 0
        while cls(at(j)) == 'S':
            if cp[j] in (13, 10):
                last = j + 1
            j += 1
        if last:
            emit(last)
        elif j - i > 1 and j < n:
            emit(j - 1)
        else:
            emit(max(j, i + 1))
    return out


def decode_utf8(b):
    """code points; every byte that does not start a well-formed-looking sequence becomes U+FFFD"""
    o, i = [], 0
    while i < len(b):
        c = b[i]
        n = 1 if c < 0x80 else 2 if c & 0xE0 == 0xC0 else 3 if c & 0xF0 == 0xE0 else 4 if c & 0xF8 == 0xF0 else 0
        if n and i + n <= len(b) and all(x & 0xC0 == 0x80 for x in b[i + 1:i + n]):
            v = c if n == 1 else c & (0x7F >> n)
            for x in b[i + 1:i + n]:
                v = v << 6 | (x & 63)
            o.append(v)
            i += n
        else:
            o.append(0xFFFD)
            i += 1
    return o


class Tok:
    def __init__(s, path):
        kv = read(path, False)[0]
        s.text = kv['tokenizer.ggml.tokens']
        s.type = kv['tokenizer.ggml.token_type']
        s.id = {t: i for i, t in enumerate(s.text)}
        s.rank = {}
        for r, m in enumerate(kv['tokenizer.ggml.merges']):
            k = m.index(b' ', 1)
            s.rank.setdefault((m[:k], m[k + 1:]), r)
        keep = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
        s.map, x = {}, 256
        for b in range(256):
            s.map[b] = chr(b if b in keep else x).encode()
            x += b not in keep
        s.specials = sorted((i for i in range(len(s.text)) if s.type[i] in (3, 4)), key=lambda i: -len(s.text[i]))

    def word(s, raw):
        p = [s.map[x] for x in raw]
        while len(p) > 1:
            r, i = min((s.rank.get((p[k], p[k + 1]), 1 << 30), k) for k in range(len(p) - 1))
            if r == 1 << 30:
                break
            p[i:i + 2] = [p[i] + p[i + 1]]
        out = []
        for t in p:
            if t in s.id:
                out.append(s.id[t])
            else:
                out += [s.id[ch.encode()] for ch in t.decode() if ch.encode() in s.id]
        return out

    def encode(s, b, special):
        frag = [b]
        for i in s.specials:
            if s.type[i] == 3 and not special:
                continue
            nf = []
            for f in frag:
                if isinstance(f, int):
                    nf.append(f)
                    continue
                for k, p in enumerate(f.split(s.text[i])):
                    nf += [i] if k else []
                    nf += [p] if p else []
            frag = nf
        out = []
        for f in frag:
            if isinstance(f, int):
                out.append(f)
                continue
            cp = decode_utf8(f)
            for a, z in split(cp):
                out += s.word(b''.join(chr(v).encode('utf-8', 'surrogatepass') for v in cp[a:z]))
        return out


if __name__ == '__main__':
    print(*Tok(sys.argv[1]).encode(sys.stdin.buffer.read(), '--special' in sys.argv))
