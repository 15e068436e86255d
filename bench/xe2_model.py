#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What one cycle of the 27B model should take on an Arc Pro B70: a model, nothing is run on a card.

usage: xe2_model.py --asm FOLDER --program QWENRUN [--table JSON] [--update] [--compiler TEXT] [--loops]

FOLDER is what tests/check_xe2.sh keeps: the machine code of our kernels. QWENRUN tells every launch of the
frozen plans with the bytes it has to move (plan --b70 --launches). Both together give the time of each launch
twice, low and high; docs/xe2.md says what is counted and what cannot be known. --loops prints the counts of
each loop. --table compares with a table made before: 1 % more fails, if the compiler is the same; --update
writes it. The last line is "N passed, N failed"; exit status 1 when a gate failed.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import shapes_27b  # noqa: E402
import xe2_asm  # noqa: E402

# ---- the card; where each number comes from: docs/xe2.md ----

XVES, CORES = 256, 32
CLOCK = 2.8e9
PEAK = 608e9
LARGE, L2 = 1 << 20, 24 << 20  # bytes of an argument that streams; of the cache that all cores share
CASES = {
    # clocks of a vector instruction; is the matrix unit's time hidden; bytes per second of the card, of one
    # core alone, and of one thread (0: no limit); the largest argument that is found in a cache when it is
    # asked for again; seconds between two launches, and of the wait and the read-back at the end of a step
    "low": {"vector": 1.0, "hidden": True, "rate": 576e9, "core": 17e9, "thread": 0, "cached": L2,
            "gap": 0.40e-6, "wait": 8.1e-6},
    "high": {"vector": 2.3, "hidden": False, "rate": 532e9, "core": 13e9, "thread": 512e6, "cached": LARGE,
             "gap": 0.73e-6, "wait": 14.2e-6},
}
DPAS = 16  # clocks of eight rows
WIDTHS = (1, 2, 4, 6, 8, 16)
WIDTH, CONTEXT = 6, 4096

# part of a cycle, plans, kernels ("": all others of the plans, None: what the launches cost), goal in ms
PARTS = (
    ("target projections", "verify", r"qw_matmul_(?!q6_k)", 25.5),
    ("target head", "verify", r"qw_matmul_q6_k", 2.2),
    ("attention", "verify", r"qw_attn|qw_merge", 0.9),
    ("gated delta net", "verify", r"qw_gdn", 0.9),
    ("norms, conv, rope, swiglu, arg-max", "verify", r"", 1.0),
    ("launches, one wait", "verify", None, 0.5),
    ("drafter without its head", "draft", r"", None),
    ("drafter's head", "draft", r"qw_matmul_q6_k|qw_argmax", 2.45),
    ("inject, accept", "inject accept", r"", 0.5),
)
SUMS = (("verify", PARTS[:6], 31.0), ("drafter", PARTS[6:8], 5.5), ("drafter's head", PARTS[7:8], 2.45),
        ("cycle", PARTS, 37.0))


class NotPriced(Exception):
    """The machine code does not say how often something runs."""


# ---- a launch ----

class Launch:
    def __init__(self, plan, raw, kernel, generic):
        self.plan, self.name, self.kernel, self.generic = plan, raw["kernel"], kernel, generic
        self.arguments = raw["arguments"]
        self.read, self.written = raw["read_bytes"], raw["written_bytes"]
        self.local = raw["local"]
        if self.local is None:
            sys.exit(f"xe2_model: {self.name}: the plan leaves its local size open")
        self.sizes = [g // l for g, l in zip(raw["global"], self.local)]
        self.groups = self.items = 1
        for n, l in zip(self.sizes, self.local):
            self.groups *= n
            self.items *= l
        self.rows, self.once = 1, set()  # once: arguments that are moved once whatever the code looks like
        self.threads = self.groups * -(-self.items // kernel.simd)

    def number(self, name):
        """The value of the int argument that the kernel calls so."""
        for i, known in self.kernel.arguments.items():
            if known == name and isinstance(self.arguments[i], int):
                return self.arguments[i]
        raise NotPriced(f"it has no argument {name}")

    def bytes_of(self, number, what="read_bytes"):
        a = self.arguments[number] if number < len(self.arguments) else None
        return a[what] if isinstance(a, dict) else 0


def moved_by(kernel, loop, number):
    """Bytes that a thread loads of an argument in one run of the loop's own instructions."""
    return sum(b for a, b in kernel.bytes_moved(loop).items() if number in a)


# ---- how often loops run, all threads together ----

def by_bytes(launch, loop):
    """A loop over an argument runs as often as it takes to go over all of it once; None: it has none."""
    k, most = launch.kernel, None
    for verbs, what in ((("load",), "read_bytes"), (("store", "atomic"), "written_bytes")):
        for argument, size in k.bytes_moved(loop, verbs).items():
            whole = max((launch.bytes_of(n, what) for n in argument), default=0)
            if whole:
                most = max(most or 0, whole / size)
    return most


def remainder(kernel, loop):
    """Is it what is left over of an unrolled loop beside it?"""
    mine = kernel.bytes_moved(loop)
    return bool(mine) and any(set(kernel.bytes_moved(x)) == set(mine) and sum(kernel.bytes_moved(x).values()) >
                              sum(mine.values()) for x in kernel.loops if x is not loop and x.parent is loop.parent)


def matmul_runs(launch):
    """The loop over blocks of 32 columns, the one over groups of 256 around it, the one over row tiles."""
    k, w = launch.kernel, 0
    tiles, groups = -(-launch.number("N") // 16), -(-launch.number("K") // 256)
    lanes = max(1, k.simd // 16)
    block = launch.bytes_of(w) / (tiles * groups * 8)
    reading = [x for x in k.loops if moved_by(k, x, w)]
    inner = [x for x in reading if not any(y is not x and x.covers(y) for y in reading)]
    if len(inner) != 1:
        raise NotPriced(f"{len(inner)} loops over the weights")
    blocks = max(1, round(moved_by(k, inner[0], w) / (block * lanes)))
    rows_at_once = tile_rows(launch)
    passes = -(-launch.rows // rows_at_once)
    runs = {inner[0]: tiles * groups * 8 / (blocks * lanes) * passes}
    outer = inner[0].parent
    if blocks % 8 and outer:
        runs[outer] = tiles * groups / lanes * passes
        outer = outer.parent
    while outer:
        runs[outer] = launch.threads * passes / launch.sizes[2]
        outer = outer.parent
    return runs


def tile_rows(launch):
    """Rows of activations that one pass over the weights serves."""
    m = re.search(r"_[gx](\d+)$", launch.name)
    if m is None:
        raise NotPriced("its name does not say how many rows it takes at once")
    return int(m[1])


def attn_runs(launch):
    """Generic: each row and each query head goes over the keys and the values of its own."""
    k = launch.kernel
    heads = launch.number("heads") // launch.number("kv_heads")
    again = launch.sizes[2] * heads
    runs = {}
    for number in (2, 3):
        reading = [x for x in k.loops if moved_by(k, x, number)]
        size = sum(moved_by(k, x, number) for x in reading)
        for x in reading:
            runs[x] = launch.bytes_of(number) * again / size
            if x.parent:
                runs[x.parent] = launch.threads * heads
    return runs


def attn_xe2_runs(launch):
    """Of the card: up to Q queries share a walk over a block's keys and values; groups beyond the last chunk
    of rows leave at once. Of the loops over values the middle one is for positions that all rows see."""
    k, runs = launch.kernel, {}
    queries = int(re.search(r"_x(\d+)$", launch.name)[1])
    heads = launch.number("heads") // launch.number("kv_heads")
    chunks = -(-launch.rows // max(1, queries // heads))
    live = launch.threads // launch.sizes[2] * chunks
    keys, values = ([x for x in k.loops if moved_by(k, x, n)] for n in (2, 3))
    if len(keys) != 1 or len(values) not in (1, 3) or keys[0].parent is None:
        raise NotPriced(f"its loops are not those of cl/xe2/attn.cl: {len(keys)} over keys, {len(values)} over values")
    whole = keys[0].parent
    runs[whole] = live * -(-min(launch.rows, max(1, queries // heads)) * heads // queries)
    for reading, number in ((keys[0], 2), (values[len(values) // 2], 3)):
        runs[reading] = launch.bytes_of(number) * chunks / moved_by(k, reading, number)
    for x in k.loops:
        if x in runs:
            continue
        if x in values:  # at the edges of what rows see
            runs[x] = 0
        elif x.parent is None:  # what each row sees
            runs[x] = launch.threads * max(1, queries // heads)
        elif x.parent is whole and x.children:  # softmax: eight sub-groups, a query each
            runs[x] = runs[whole] * -(-queries // 8)
        else:  # over the eight tiles of a block, for one query
            runs[x] = runs[x.parent] * 8
    return runs


def gdn_runs(launch):
    """Generic: S from memory for each row replayed and each row stepped through."""
    k, runs = launch.kernel, {}
    for x in k.loops:
        size = moved_by(k, x, 2)
        if size:
            if x.parent is None:
                raise NotPriced("a loop over S stands in no loop over rows")
            rows = launch.rows - 1 if moved_by(k, x.parent, 4) else launch.rows
            runs[x.parent] = launch.threads * rows
            runs[x] = launch.threads * rows * launch.local[0] / (size / (4 * k.simd))
    return runs


def gdn_xe2_runs(launch):
    """Of the card: a loop over rows replayed, one over chunks of rows with one over the rows in it. S is
    written where the rows that may be refused begin, once, though that stands in the loop."""
    k, runs = launch.kernel, {}
    launch.once = {2}
    for x in k.loops:
        reads = {n for n in range(len(launch.arguments)) if moved_by(k, x, n)}
        if x.parent is None and 4 in reads and 0 not in reads:  # tape
            runs[x] = launch.threads * (launch.rows - 1)
        elif x.parent is None and 1 in reads and 6 in reads:  # gates: u, dt
            runs[x] = launch.threads
        elif x.parent in runs and 0 in reads:  # q, k, v
            runs[x] = launch.threads * launch.rows
        elif x.parent in runs and k.bytes_moved(x, ("store",)):  # blocks of the output
            runs[x] = runs[x.parent] * 4
        elif x.parent in runs:  # 16 chains of the sum of squares
            runs[x] = runs[x.parent] * 16
        elif x.parent is None:  # rows into the ring
            runs[x] = launch.threads * launch.rows
            runs.update({y: runs[x] for y in x.children})
    if len(runs) != len(k.loops):
        raise NotPriced(f"its loops are not those of cl/xe2/gdn.cl: {len(runs)} of {len(k.loops)} known")
    return runs


def merge_runs(launch):
    parts = launch.bytes_of(0) / 8 / launch.groups
    return {x: launch.threads * parts for x in launch.kernel.loops if moved_by(launch.kernel, x, 0)}


RULES = (  # of a generic kernel? entry, rule
    (True, r"qw_matmul_", matmul_runs), (False, r"qw_matmul_", matmul_runs),
    (True, r"qw_attn$", attn_runs), (False, r"qw_attn_x\d+$", attn_xe2_runs),
    (True, r"qw_gdn$", gdn_runs), (False, r"qw_gdn$", gdn_xe2_runs), (True, r"qw_merge$", merge_runs),
)


def runs_of(launch):
    """({loop: runs, all threads together}, loops of which nothing says how often they run)"""
    rule = next((f for g, p, f in RULES if g == launch.generic and re.match(p, launch.name)), None)
    runs = rule(launch) if rule else {}
    unknown = []
    for x in launch.kernel.loops:  # outer ones first
        if x in runs:
            continue
        around = runs[x.parent] if x.parent else launch.threads
        if remainder(launch.kernel, x):
            runs[x] = 0
            continue
        runs[x] = by_bytes(launch, x)
        if runs[x] is None:
            runs[x] = around
            unknown.append(x)
        if not rule and not launch.generic and (x in unknown or x.parent):
            raise NotPriced("no rule says how often its loops run")
    return runs, unknown


# ---- the price of a launch ----

def clocks(counts, case):
    """(vector and scalar work and messages, matrix unit) of {class: units}"""
    return (counts.get("vector", 0) * case["vector"] + counts.get("scalar", 0) + counts.get("send", 0) +
            counts.get("flow", 0), counts.get("dpas", 0) * DPAS)


class Price:
    """Seconds of one launch by case, without the gap before it, and what they come from."""

    def __init__(self, launch):
        k = launch.kernel
        self.runs, self.unknown = runs_of(launch)
        self.counts, self.loaded = {}, {}
        for loop, n in [(None, launch.threads)] + list(self.runs.items()):
            for c, units in k.counts(loop).items():
                self.counts[c] = self.counts.get(c, 0) + units * n
            for verbs, way in ((("load",), "read_bytes"), (("store", "atomic"), "written_bytes")):
                for argument, size in k.bytes_moved(loop, verbs).items():
                    for number in argument:
                        at = (number, way)
                        self.loaded[at] = self.loaded.get(at, 0) + size * n / len(argument)
        self.seconds, self.alu, self.memory = {}, {}, {}
        for name, case in CASES.items():
            work, matrix = clocks(self.counts, case)
            busy = max(work, matrix) if case["hidden"] else work + matrix
            self.alu[name] = busy / min(XVES, launch.threads) / CLOCK
            self.memory[name] = self.bytes(launch, case) / rate_of(launch, case)
            if case["thread"]:  # what is asked for again comes from nearer by
                self.memory[name] = max(self.memory[name],
                                        (launch.read + launch.written) / (launch.threads * case["thread"]))
            self.seconds[name] = max(self.alu[name], self.memory[name])

    def bytes(self, launch, case):
        """Every byte once, as the plan has it; what no cache holds, as often as it is asked for."""
        total = 0
        for number in range(len(launch.arguments)):
            for way in ("read_bytes", "written_bytes"):
                once = launch.bytes_of(number, way)
                asked = self.loaded.get((number, way), 0) if number not in launch.once else 0
                total += max(once, asked) if once > case["cached"] else once
        return total


def rate_of(launch, case):
    """Bytes per second: a launch of few groups has only some of the card."""
    return case["rate"] if launch.groups >= CORES else min(case["rate"], launch.groups * case["core"])


# ---- what there is ----

class Programs:
    """The disassembled programs below the folder of tests/check_xe2.sh."""

    def __init__(self, folder):
        self.folder, self.facts, self.kernels = folder, {}, {}
        for name in sorted(os.listdir(folder)):
            info = os.path.join(folder, name, "1", "asm", ".ze_info")
            if os.path.exists(info):
                self.facts[name] = xe2_asm.read_facts(info)
        if "generic" not in self.facts:
            sys.exit(f"xe2_model: no machine code of the generic kernels in {folder}")

    def find(self, name, options):
        """(Kernel, is it a generic one) of a program that is built with these options."""
        set_of = {key: int(n) for key, n in re.findall(r"-DQW_(\w+)=(\d+)", options)}
        sizes = f"-{set_of['HD']}-{set_of['KV']}"
        if "EMULATED" in set_of:
            known = [p for p in self.facts if p.startswith("xe2-") and (p.endswith(sizes) or not
                                                                        re.search(r"-\d+-\d+$", p))]
        else:
            known = ["generic" + ("" if sizes == "-256-16" else "-attention" + sizes)]
        for program in known:
            if name in self.facts.get(program, {}):
                if (program, name) not in self.kernels:
                    self.kernels[program, name] = xe2_asm.read_kernel(
                        os.path.join(self.folder, program, "1", "asm"), name, self.facts[program][name])
                return self.kernels[program, name], not program.startswith("xe2-")
        sys.exit(f"xe2_model: no machine code of {name} with {options}")


def ask(program, files, width, backend):
    """What `plan` says of a step of so many rows; None: it has not these kernels."""
    settings = [f"model.target={files}/target.gguf", f"model.context={CONTEXT}", "batch.prefill=1", "kv.target=f16",
                f"device.backend={backend}", "device.shape=auto"]
    if width > 1:
        settings += [f"model.draft={files}/draft.gguf", "kv.draft=f16", "speculation.method=dflash",
                     f"speculation.n_max={width - 1}", "speculation.n_min=0", "speculation.p_min=0"]
    else:
        settings += ["model.draft=none", "speculation.method=none"]
    cmd = [program, "plan", "--b70", "--launches", "--json"] + [x for s in settings for x in ("-o", s)]
    got = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, stdin=subprocess.DEVNULL,
                         env={**os.environ, "XDG_CONFIG_HOME": files})
    if got.returncode == 2 and b"device.backend" in got.stderr and backend != "generic":
        return None
    if got.returncode:
        sys.exit(f"xe2_model: {' '.join(cmd)}: {got.stderr.decode(errors='replace').strip()}")
    return json.loads(got.stdout)


def launches_of(programs, plan, width):
    """[Launch] of a step of so many rows; the plan of one row is the verify step of width 1."""
    out = []
    for name, steps in plan["launches"].items():
        if width > 1 and name in ("step", "head"):
            continue
        for raw in steps:
            kernel, generic = programs.find(raw["kernel"], plan["programs"][raw["program"]])
            launch = Launch("verify" if name in ("step", "head") else name, raw, kernel, generic)
            launch.rows = rows_of(launch, width)
            out.append(launch)
    return out


def rows_of(launch, width):
    """Live rows: the drafter's head leaves out the first."""
    if launch.plan == "draft" and re.match(r"qw_matmul_q6_k|qw_argmax", launch.name):
        return width - 1
    return width


# ---- a cycle ----

class Cycle:
    """All launches of one width with their prices; equal ones are priced once."""

    def __init__(self, programs, plan, width):
        self.notes = {}
        self.launches = launches_of(programs, plan, width)
        known = {}
        self.prices = []
        for launch in self.launches:
            at = (id(launch.kernel), launch.rows, json.dumps([launch.sizes, launch.local, launch.arguments]))
            if at not in known:
                known[at] = self.price(launch)
            self.prices.append(known[at])

    def price(self, launch):
        try:
            return Price(launch)
        except NotPriced as why:
            self.notes[launch.name] = str(why)
            return None

    def of(self, plans, pattern):
        part = []
        taken = [p for _, of, p, _ in PARTS if of == plans and p]
        for launch, price in zip(self.launches, self.prices):
            if launch.plan not in plans.split():
                continue
            if pattern == "" and any(re.match(p, launch.name) for p in taken):
                continue
            if re.match(pattern, launch.name):
                part.append((launch, price))
        return part

    def part(self, name, plans, pattern):
        """{low, high: ms}, bytes, sets, and the names of kernels without a price"""
        if pattern is None:
            n = len(self.of(plans, r"qw_"))
            return {"ms": {c: 1e3 * (n * v["gap"] + v["wait"]) for c, v in CASES.items()}, "bytes": 0,
                    "kernels": f"{n} launches", "missing": []}
        part = self.of(plans, pattern)
        gap = plans != "verify"  # there it has a line of its own
        ms = {c: 1e3 * sum((p.seconds[c] if p else 0) + (v["gap"] if gap else 0) for _, p in part)
              for c, v in CASES.items()}
        sets = sorted({"generic" if x.generic else "xe2" for x, _ in part})
        return {"ms": ms, "bytes": sum(x.read + x.written for x, _ in part), "kernels": " and ".join(sets),
                "missing": sorted({x.name for x, p in part if p is None})}

    def table(self):
        return {p[0]: self.part(p[0], p[1], p[2]) for p in PARTS}

    def verify(self):
        t = self.table()
        return {c: sum(t[p[0]]["ms"][c] for p in SUMS[0][1]) for c in CASES}


# ---- gates ----

class Gates:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, good, text):
        self.passed += bool(good)
        self.failed += not good
        print(("ok " if good else "FAIL ") + text)


STREAMS = (  # kernel, the arguments that stream, gates: each byte once, work at most such a part of their time
    (r"qw_matmul_", (0,), True, 0.60),  # weights
    # f32 work grows with the rows and the bytes do not, so these are judged by their time
    (r"qw_attn(_x\d+)?$", (2, 3), False, None),  # keys and values; sub-groups may share them through a cache
    (r"qw_gdn$", (2,), True, None),  # S
)


def stream(launch):
    """The row of STREAMS for a streaming kernel, None for another."""
    return next((s for s in STREAMS if re.match(s[0], launch.name) and launch.bytes_of(s[1][0]) >= LARGE), None)


def gate_kernels(gates, programs):
    for program, facts in programs.facts.items():
        if program.startswith("xe2-"):
            bad = [f"{n} ({f['spill_size']} B)" for n, f in facts.items() if f["spill_size"]]
            gates.check(not bad, f"{program}: no spills" + (": " + ", ".join(bad) if bad else ""))


def gate_streams(gates, cycles):
    """The kernels written for the card, each at its worst launch of steps up to eight rows; beyond, the
    share of work is shown alone."""
    worst = {}
    for launch, price in [x for c in cycles for x in zip(c.launches, c.prices)]:
        row = stream(launch)
        if launch.generic or row is None or price is None:
            continue
        once = sum(launch.bytes_of(n) for n in row[1])
        asked = sum(price.loaded.get((n, "read_bytes"), 0) for n in row[1])
        both = once + sum(launch.bytes_of(n, "written_bytes") for n in row[1])
        at = launch.name if launch.rows <= 8 else f"{launch.name} beyond eight rows"
        w = worst.setdefault(at, {"once": row[2], "limit": row[3] if launch.rows <= 8 else None, "share": 0,
                                  "asked": 1, "dpas": None})
        w["share"] = max(w["share"], price.alu["high"] / (both / PEAK))
        w["asked"] = max(w["asked"], asked / once, key=lambda x: abs(x - 1))
        if price.counts.get("dpas"):
            least = -(-launch.number("N") // 16) * (launch.number("K") // 32) * launch.rows / 8
            w["dpas"] = min(w["dpas"] or 99, price.counts["dpas"] / least)
    for name, w in sorted(worst.items()):
        text = f"{name}: loads {w['asked']:.3f} times what the plan moves"
        if w["once"]:
            gates.check(abs(w["asked"] - 1) < 0.005, text)
        else:
            print(text)
        if w["dpas"] is not None:
            gates.check(w["dpas"] >= 1, f"{name}: {w['dpas']:.2f} dpas for 16 x 32 weights and eight live rows (at least 1)")
        text = f"{name}: work takes {100 * w['share']:.0f} % of the streaming time"
        if w["limit"] is None:
            print(text)
        else:
            gates.check(w["share"] <= w["limit"], f"{text} (at most {100 * w['limit']:.0f})")


def gate_widths(gates, six, eight):
    """Width 8 costs what 6 does, in the streaming kernels of the card."""
    times = []
    for cycle in (six, eight):
        own = [p.seconds["high"] for x, p in zip(cycle.launches, cycle.prices)
               if not x.generic and p and x.plan == "verify" and stream(x) is not None]
        times.append(sum(own))
    if times[0]:
        more = times[1] / times[0] - 1
        gates.check(more <= 0.03, f"streaming kernels at 8 rows: {100 * more:+.1f} % beside 6 (at most 3)")


# ---- output ----

def print_table(table):
    print(f"{'part':38} {'MB':>8} {'floor':>6} {'goal':>6} {'low':>7} {'high':>7}  kernels")
    for name, _, pattern, goal in PARTS:
        part = table[name]
        floor = 1e3 * part["bytes"] / PEAK if pattern is not None else None
        cells = [f"{x:6.2f}" if x is not None else "      " for x in (floor, goal)]
        mark = " at least: without " + ", ".join(part["missing"]) if part["missing"] else ""
        print(f"{name:38} {part['bytes'] / 1e6:8.1f} {cells[0]} {cells[1]} {part['ms']['low']:7.2f} "
              f"{part['ms']['high']:7.2f}  {part['kernels']}{mark}")


def print_goals(table):
    for name, parts, goal in SUMS:
        ms = {c: sum(table[p[0]]["ms"][c] for p in parts) for c in CASES}
        verdict = "met" if ms["high"] <= goal else "met in the low case only" if ms["low"] <= goal else "missed"
        if any(table[p[0]]["missing"] for p in parts) and verdict != "missed":
            verdict = "not known, as kernels have no price"
        print(f"goal {name + ' <= ' + format(goal, 'g') + ' ms':27} {ms['low']:7.2f} .. {ms['high']:.2f}  {verdict}")


def print_loops(cycle):
    seen = set()
    for launch, price in zip(cycle.launches, cycle.prices):
        k = launch.kernel
        if id(k) in seen:
            continue
        seen.add(id(k))
        print(f"\n{launch.name} ({'generic' if launch.generic else 'xe2'}): {k.simd} lanes, {k.registers} registers, "
              f"spills {k.spill}, local {k.slm}; {launch.threads} threads of {launch.groups} groups")
        for loop in [None] + k.loops:
            depth, x = 1, loop
            while x:
                depth, x = depth + 1, x.parent
            counts = ", ".join(f"{c} {n:g}" for c, n in sorted(k.counts(loop).items()))
            moves = []
            for verbs in (("load",), ("store", "atomic")):
                for a, size in k.bytes_moved(loop, verbs).items():
                    moves.append(f"{verbs[0]} {'|'.join(k.arguments.get(n, '?') for n in sorted(a)) or '?'} {size}")
            n = (launch.threads if loop is None else price.runs[loop]) / launch.threads if price else 0
            where = f"{loop.first}-{loop.last}" if loop else "all"
            mark = " (as often as what is around it)" if price and loop in price.unknown else ""
            print(f"{'  ' * depth}{where}: {n:.1f} a thread{mark}: {counts}; {', '.join(moves)}")


def record(args, table, cycles):
    kernels = {}
    for launch in cycles[WIDTH].launches:
        k = launch.kernel
        kernels[launch.name] = {"set": "generic" if launch.generic else "xe2", "lanes": k.simd,
                                "registers": k.registers, "spill_bytes": k.spill}
    return {
        "what": "times of one cycle on an Arc Pro B70 by a model (docs/xe2.md); nothing was run on a card",
        "command": "make check-xe2", "compiler": args.compiler,
        "plan": f"27B shapes, width {WIDTH}, context {CONTEXT}, F16 cache",
        "parts_ms": {n: [round(p["ms"][c], 4) for c in CASES] for n, p in table.items()},
        "verify_ms_by_width": {str(w): [round(c.verify()[n], 4) for n in CASES] for w, c in cycles.items()},
        "kernels": dict(sorted(kernels.items())),
    }


def compare(gates, old, new):
    """Worse by more than 1 % (and 2 us) than the table."""
    same = old["compiler"] == new["compiler"]
    if not same:
        print(f"the table was made with another compiler ({old['compiler']}): shown, not judged")
    for group in ("parts_ms", "verify_ms_by_width"):
        for name, values in new[group].items():
            before = old[group].get(name)
            if before is None or values == before:
                continue
            what = f"{group[:-3] if group == 'parts_ms' else 'verify at width'} {name}"
            text = f"{what}: {values[0]:.3f} .. {values[1]:.3f} ms, the table has {before[0]:.3f} .. {before[1]:.3f}"
            if any(v > 1.01 * b and v > b + 0.002 for v, b in zip(values, before)):
                if same:
                    gates.check(False, text)
                else:
                    print("worse: " + text)
            else:
                print("changed: " + text)
    if same:
        gates.check(set(old["parts_ms"]) == set(new["parts_ms"]), "the table has these parts")


def main():
    ap = argparse.ArgumentParser(usage=__doc__)
    ap.add_argument("--asm", required=True)
    ap.add_argument("--program", required=True)
    ap.add_argument("--table")
    ap.add_argument("--compiler", default="unknown")
    ap.add_argument("--update", action="store_true")
    ap.add_argument("--loops", action="store_true")
    args = ap.parse_args()
    programs, gates = Programs(args.asm), Gates()
    own = [p for p in programs.facts if p.startswith("xe2-")]
    with tempfile.TemporaryDirectory() as files:
        for name, make in (("target", shapes_27b.target), ("draft", shapes_27b.draft)):
            shapes_27b.write(os.path.join(files, name + ".gguf"), *make())
        xe2 = bool(own) and ask(args.program, files, WIDTH, "xe2") is not None
        backend = "xe2" if xe2 else "generic"
        cycles = {w: Cycle(programs, ask(args.program, files, w, backend), w) for w in WIDTHS}
    print("One cycle on an Arc Pro B70, by a model; nothing was run on a card.")
    print(f"27B shapes: Q4_0, head Q6_K, drafter Q8_0; width {WIDTH}, F16 cache full to {CONTEXT}")
    print(f"compiler: {args.compiler}")
    print(f"ms; memory at {CASES['low']['rate'] / 1e9:.0f} (low) and {CASES['high']['rate'] / 1e9:.0f} GB/s (high), "
          f"the floor at {PEAK / 1e9:.0f}")
    if own and not xe2:
        print(f"{', '.join(own)}: compiled, but this program has no such kernels yet: generic ones are priced")
    table = cycles[WIDTH].table()
    print_table(table)
    verify = {w: c.verify() for w, c in cycles.items()}
    print("verify by width: " + ", ".join(f"{w}: {v['low']:.1f} .. {v['high']:.1f}" for w, v in verify.items()))
    print_goals(table)
    if args.loops:
        print_loops(cycles[WIDTH])
    for name, why in sorted({k: v for c in cycles.values() for k, v in c.notes.items()}.items()):
        gates.check(False, f"{name} has no price: {why}")
    gate_kernels(gates, programs)
    gate_streams(gates, cycles.values())
    gate_widths(gates, cycles[6], cycles[8])
    new = record(args, table, cycles)
    if args.update and args.table:
        with open(args.table, "w", encoding="utf-8") as f:
            text = json.dumps(new, indent=1)
            f.write(re.sub(r"([\[{])\s+([^\[\]{}]*?)\s+([\]}])", lambda m: m[1] + " ".join(m[2].split()) + m[3], text))
            f.write("\n")
    elif args.table:
        with open(args.table, encoding="utf-8") as f:
            compare(gates, json.load(f), new)
    print(f"{gates.passed} passed, {gates.failed} failed")
    sys.exit(1 if gates.failed else 0)


if __name__ == "__main__":
    main()
