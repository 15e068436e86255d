# SPDX-License-Identifier: MIT
"""The reader of machine code and the arithmetic of bench/xe2_model.py, on the code in tests/xe2-asm.

That code was made from tiles.cl there by ocloc 26.27.1 with igc 2.40.14, by
tools/xe2-check --keep FOLDER tests/xe2-asm/tiles.cl; what stands behind its end is left out.
Counts wanted here were made by hand or by grep, not by the reader.
"""
import contextlib
import io
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "bench"))
import xe2_asm  # noqa: E402
import xe2_model  # noqa: E402

ASM = os.path.join(HERE, "xe2-asm")
passed = failed = 0


def same(what, got, want):
    global passed, failed
    if got == want:
        passed += 1
        print(f"ok {what}")
    else:
        failed += 1
        print(f"FAIL {what}: {got}, not {want}")


def near(what, got, want):
    same(what, round(got / want, 9), 1.0)


def named(kernel, moved):
    return {"|".join(kernel.arguments[n] for n in sorted(a)): b for a, b in moved.items()}


def read(name):
    return xe2_asm.read_kernel(ASM, name, xe2_asm.read_facts(os.path.join(ASM, ".ze_info"))[name])


def lines(name, first, last):
    """The text between two labels, the second not included."""
    with open(os.path.join(ASM, f".text.{name}.asm"), encoding="utf-8") as f:
        text = f.read()
    return text[text.index(f"\n{first}:"):text.index(f"\n{last}:")]


def test_facts():
    facts = xe2_asm.read_facts(os.path.join(ASM, ".ze_info"))
    same("kernels of a binary, without what is none", sorted(facts), ["pick", "qw_matmul_t_x8"])
    k = read("qw_matmul_t_x8")
    same("lanes, registers, spills", (k.simd, k.registers, k.spill), (16, 128, 0))
    same("names of arguments", [k.arguments[i] for i in (0, 6, 10)], ["w", "K", "mode"])


def test_product():
    k = read("qw_matmul_t_x8")
    same("one loop", len(k.loops), 1)
    loop = k.loops[0]
    same("it loads a group of weights and its rows", named(k, k.bytes_moved(loop)), {"w": 2304, "q": 2048})
    same("and stores behind it", named(k, k.bytes_moved(None, ("store",))), {"y": 8 * 64})
    body = "\n".join(str(i.name) for i in k.own(loop))
    counts = k.counts(loop)
    same("dpas of eight rows", counts["dpas"], body.count("dpas.8x8"))
    same("its dpas", counts["dpas"], 8)
    same("its messages", counts["send"], body.count("send.ugm"))
    same("arguments are no data", [i for i in k.code if i.moves and i.moves[1] == "payload"] != [], True)


def test_nest():
    k = read("pick")
    same("two loops", len(k.loops), 2)
    outer, inner = k.loops
    same("one in the other", inner.parent is outer, True)
    text = lines("pick", "L704", "L976")
    text = re.sub(r"(?m)^L\d+:$", "", text)
    whole = [line for line in text.splitlines() if line.strip()]
    same("instructions of the inner one", len(k.own(inner)), len(whole))
    wide = [line for line in whole if "(16|M0)" in line]
    counts = k.counts(inner)
    jumps = sum("jmpi" in line for line in whole)
    same("vectors of the inner one", counts["vector"], len(wide))
    same("scalars of the inner one", counts["scalar"], len(whole) - len(wide) - jumps)
    same("jumps of the inner one", counts["flow"], jumps)
    same("a pointer that may be either", named(k, k.bytes_moved(outer)), {"from|to": 64})
    same("no memory inside", named(k, k.bytes_moved(inner)), {})


def code_of(text):
    """Instructions and labels of lines of text."""
    code, labels = [], {}
    for line in text.strip().splitlines():
        if line.endswith(":"):
            labels[line[:-1]] = len(code)
        else:
            code.append(xe2_asm.Instruction(line))
    return code, labels


def test_loops():
    code, labels = code_of("""
L0:
 mov (16|M0)  r2.0<1>:ud  r3.0<1;1,0>:ud
(W&f0.0) jmpi  L0
 mov (16|M0)  r2.0<1>:ud  r3.0<1;1,0>:ud
L1:
 goto.b (16|M0)  L2  L0
L2:
 join (16|M0)  L3
(W&f0.0) jmpi  L1
L3:
 mov (16|M0)  r2.0<1>:ud  r3.0<1;1,0>:ud
""")
    try:
        xe2_asm.find_loops(code, labels)
        same("loops that overlap are refused", "taken", "refused")
    except xe2_asm.Broken:
        same("loops that overlap are refused", "refused", "refused")
    code[5].targets = []
    same("two jumps back to one place are one loop", [(x.first, x.last) for x in xe2_asm.find_loops(code, labels)], [(0, 3)])


def test_pointers():
    load = "// wr:1+0, rd:1; load.ugm.d32x1t.a64"
    code, labels = code_of(f"""
 mov (8|M0)  r2.0<1>:ud  r1.0<1;1,0>:ud
(W) send.ugm (1|M0)  r2  r2  null:0  0x0  0x0 {load}
 mov (1|M0)  r4.0<1>:q  r2.1<0;1,0>:q
(W) send.ugm (1|M0)  r5  r4  null:0  0x0  0x0 {load}
 mov (2|M0)  r6.0<1>:ud  r2.4<1;1,0>:ud
(W&f0.0) sel (1|M0)  r6.0<1>:d  r2.2<0;1,0>:d  r7.0<0;1,0>:d
(W&f0.0) sel (1|M0)  r6.1<1>:d  r2.3<0;1,0>:d  r7.1<0;1,0>:d
(W) send.ugm (1|M0)  r8  r6  null:0  0x0  0x0 {load}
(W&f0.0) mov (1|M0)  r6.0<1>:q  r2.2<0;1,0>:q
(W) send.ugm (1|M0)  r9  r6  null:0  0x0  0x0 {load}
 add (16|M0)  r10.0<1>:q  r20.0<1;1,0>:q  r2.2<0;1,0>:q
 send.ugm (16|M0)  r12  r10  null:0  0x0  0x0 // wr:2+0, rd:1; load.ugm.d32.a64
 mul (16|M0)  r10.0<1>:d  r10.0<1;1,0>:d  r2.2<0;1,0>:uw
 send.ugm (16|M0)  r12  r10  null:0  0x0  0x0 // wr:2+0, rd:1; load.ugm.d32.a64
(W) send.gtwy (1|M0)  null  r127  null:0  0x0  0x0 {{EOT}} // wr:1+0, rd:0; end of thread
""")
    xe2_asm.follow_pointers(code, labels, {"inline_data_payload_size": 32, "pointers": {0: 0, 8: 1, 16: 2}})
    went = [sorted(i.argument) for i in code if i.moves]
    same("a pointer from where the arguments are", went[0], [0])
    same("one beside what a load has overwritten", went[1], [1])
    same("a choice forgets what was there", went[2], [1])
    same("what may be left as it was is either", went[3], [1, 2])
    same("a pointer and an index", went[4], [2])
    same("half of it is a product now, half is left", went[5], [2])


def test_messages():
    wanted = {
        "(W) send.ugm (1|M0) r1 r2 null:0 0x0 0x0 {A@1} // wr:1+0, rd:4; load.ugm.d32x64t.a64": ("load", "ugm", 256),
        " send.ugm (32|M0) r1 r2 null:0 0x0 0x0 {A@1} // wr:4+0, rd:8; load.ugm.d32x4.a64": ("load", "ugm", 512),
        " send.ugm (16|M0) r1 r2 null:0 0x0 0x0 {A@1} // wr:2+0, rd:1; load.ugm.d16u32.a64": ("load", "ugm", 32),
        " send.ugm (16|M0) null r2 r3:1 0x0 0x0 {A@1} // wr:2+1, rd:0; store.ugm.d32.a64": ("store", "ugm", 64),
        " send.slm (16|M0) r1 r2 null:0 0x0 0x0 {A@1} // wr:1+0, rd:1; load.slm.d32.a32": ("load", "slm", 64),
        "(W) send.gtwy (1|M0) null r8 null:0 0x0 0x0 {I@2} // wr:1+0, rd:0; signal barrier": None,
        " send.ugm (1|M0) r1 r2 null:0 0x0 0x0 {A@1} // wr:1+0, rd:32; load_block2d.ugm.d32.a64": ("load", "ugm", 2048),
    }
    for text, want in wanted.items():
        same("message " + text.partition("; ")[2], xe2_asm.Instruction(text).moves, want)
    wide = xe2_asm.Instruction("        add (32|M0)  r5.0<1>:d r7.0<1;1,0>:d r9.0<1;1,0>:d")
    same("32 lanes are two", wide.weights(), {"vector": 2.0})
    same("half a matrix instruction", xe2_asm.Instruction("   dpas.8x4 (16|M0)  r1:d null:d r2:s4 r3.0:b").weights(),
         {"dpas": 0.5})
    try:
        xe2_asm.Instruction("?? what is this")
        same("text that is no instruction is refused", "taken", "refused")
    except xe2_asm.Broken:
        same("text that is no instruction is refused", "refused", "refused")


def launch(name, sizes, local, arguments, rows=8, plan="verify", generic=False):
    def value(a):
        return {"read_bytes": a[0], "written_bytes": a[1]} if isinstance(a, tuple) else a

    buffers = [a for a in arguments if isinstance(a, tuple)]
    raw = {"kernel": name, "global": [n * l for n, l in zip(sizes, local)], "local": local,
           "arguments": [value(a) for a in arguments], "read_bytes": sum(a[0] for a in buffers),
           "written_bytes": sum(a[1] for a in buffers)}
    out = xe2_model.Launch(plan, raw, read(name), generic)
    out.rows = rows
    return out


def product(tiles, K, weights=None, rows=8, passes=1):
    """A launch of the product with tiles of 16 columns; each of its sub-groups stores 512 bytes."""
    w = tiles * (K // 256) * 2304 if weights is None else weights
    return launch("qw_matmul_t_x8", [tiles, 1, passes], [16, 4, 1],
                  [(w, 0), (rows * K, 0), (0, 0), (0, 0), (0, passes * 4 * 512 * tiles), (0, 0), K, 16 * tiles,
                   16 * tiles, 0, 0], rows)


def test_price():
    one = {"vector": 200, "scalar": 33, "send": 25, "dpas": 8}  # a super-tile of a draft, counted by hand
    low, high = (xe2_model.clocks(one, xe2_model.CASES[c]) for c in ("low", "high"))
    same("clocks of a super-tile, low", low, (258, 128))
    near("clocks of a super-tile, high", sum(high), 646.0)
    it = product(2560, 5120)
    p = xe2_model.Price(it)
    near("a thread a sub-group", it.threads, 2560 * 4)
    near("runs of the loop", p.runs[it.kernel.loops[0]], 2560 * 20)
    near("what it loads is what the plan moves", p.loaded[0, "read_bytes"], it.bytes_of(0))
    near("memory, low", p.memory["low"], (it.read + it.written) / 576e9)
    near("memory, high", p.memory["high"], (it.read + it.written) / 532e9)
    inside, outside = it.kernel.counts(it.kernel.loops[0]), it.kernel.counts(None)
    work = sum(n * (c[k] * f) for c, n in ((inside, 2560 * 20), (outside, it.threads))
               for k, f in (("vector", 2.3), ("scalar", 1), ("send", 1), ("flow", 1), ("dpas", 16)) if k in c)
    near("work, high", p.alu["high"], work / 256 / 2.8e9)
    small = xe2_model.Price(product(8, 5120))
    near("few groups have few cores", small.memory["low"], (8 * 20 * 2304 + 8 * 5120 + 8 * 4 * 512) / (8 * 17e9))
    twice = product(2560, 5120, rows=16, passes=2)
    p2 = xe2_model.Price(twice)
    near("two passes load twice", p2.loaded[0, "read_bytes"], 2 * twice.bytes_of(0))
    near("and from memory, as no cache holds so much", p2.memory["high"] * 532e9,
         twice.bytes_of(0) + twice.read + twice.written)


def gates(launches, function, *more):
    """(passed, failed) of a gate, and what it printed."""
    class Cycle:
        pass

    cycle, g = Cycle(), xe2_model.Gates()
    cycle.launches = launches
    cycle.prices = [xe2_model.Price(x) for x in launches]
    with contextlib.redirect_stdout(io.StringIO()) as text:
        function(g, [cycle], *more)
    return (g.passed, g.failed), text.getvalue()


def test_gates():
    good = product(2560, 5120)
    same("a product that streams passes", gates([good], xe2_model.gate_streams)[0], (3, 0))
    other = product(2560, 5120, weights=2560 * 20 * 2560)
    got, text = gates([other], xe2_model.gate_streams)
    same("one that loads other bytes than the plan has fails", (got[1], "FAIL qw_matmul_t_x8: loads" in text), (1, True))
    heavy = product(2560, 5120)
    for i in heavy.kernel.code:
        i.lanes *= 8 if i.lanes == 16 else 1
    got, text = gates([heavy], xe2_model.gate_streams)
    same("one that works too long fails", (got[1], "work takes" in text.partition("FAIL")[2]), (1, True))


def test_compare():
    old = {"compiler": "a", "parts_ms": {"x": [1.0, 2.0]}, "verify_ms_by_width": {"6": [3.0, 4.0]}}

    def compare(compiler, x, width):
        g = xe2_model.Gates()
        with contextlib.redirect_stdout(io.StringIO()):
            xe2_model.compare(g, old, {"compiler": compiler, "parts_ms": {"x": x}, "verify_ms_by_width": {"6": width}})
        return g.failed

    same("the same is no regression", compare("a", [1.0, 2.0], [3.0, 4.0]), 0)
    same("1 % is none either", compare("a", [1.01, 2.0], [3.0, 4.0]), 0)
    same("more is", compare("a", [1.0, 2.03], [3.0, 4.0]), 1)
    same("at another width as well", compare("a", [1.0, 2.0], [3.1, 4.0]), 1)
    same("less is none", compare("a", [0.5, 1.0], [1.0, 2.0]), 0)
    same("of another compiler it is shown alone", compare("b", [2.0, 4.0], [6.0, 8.0]), 0)


test_facts()
test_product()
test_nest()
test_loops()
test_pointers()
test_messages()
test_price()
test_gates()
test_compare()
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
