# SPDX-License-Identifier: MIT
"""What stands in the machine code that Intel's offline compiler makes for an Xe2 GPU.

read_facts() and read_kernel() read what `tools/xe2-check --keep` leaves: for each kernel its registers and spills, its
instructions by class, its loops, and for each message to memory which argument of the kernel it goes to and
how many bytes it moves. Nothing here knows what a kernel is for or how often a loop runs.

Classes: "vector" (16 lanes or more, in units of 16), "scalar" (fewer lanes), "send" (messages, in units of
16 addresses), "dpas" (in units of 8 rows), "flow" (jumps), "sync" (waits, which are no work of their own).
"""
import os
import re

SIZES = {"ub": 1, "b": 1, "uw": 2, "w": 2, "hf": 2, "bf": 2, "ud": 4, "d": 4, "f": 4, "uq": 8, "q": 8, "df": 8}
FLOW = {"goto", "join", "jmpi", "while", "if", "else", "endif", "break", "cont", "brc", "brd", "call", "calla",
        "ret", "halt"}
LINE = re.compile(r"^\s*(?P<pred>\([^)]*\)\s*)?(?P<name>[a-z][\w.]*)(?:\s+\((?P<lanes>\d+)\|M\d+\))?(?P<rest>.*)$")
REGISTER = re.compile(r"\br(\d+)(?:\.(\d+))?(?:<([^>]*)>)?(?::(\w+))?")
MESSAGE = re.compile(r"\b(load|store|atomic)(\w*)\.(\w+)\.d(\d+)(u32)?(?:x(\d+))?([tv]*)\b")
PAYLOAD = re.compile(r"\bbti\[255\](?:\[A\+(0x[0-9A-Fa-f]+)\])?")
REG = 64  # bytes


class Broken(Exception):
    """The machine code is not as this reader knows it."""


class Instruction:
    """One instruction. moves: ("load" | "store" | "atomic" | "prefetch", space, bytes); argument: the kernel's
    arguments that the address comes from."""

    def __init__(self, text):
        code, _, comment = text.partition("//")
        m = LINE.match(re.sub(r"\{[^}]*\}", "", code))
        if m is None:
            raise Broken(f"no instruction: {text.strip()}")
        self.name = m["name"]
        self.base = self.name.partition(".")[0]
        self.predicate = (m["pred"] or "").strip()
        self.lanes = int(m["lanes"] or 1)
        self.rest, self.comment = m["rest"], comment
        self.targets = re.findall(r"\bL\d+\b", self.rest) if self.base in FLOW else []
        self.ends = "EOT" in text
        self.moves = self.message() if self.base == "send" or self.base == "sendc" else None
        self.argument = frozenset()

    def message(self):
        m = MESSAGE.search(self.comment)
        if m is None:
            return None
        verb, kind, space, bits, _, vector, flags = m.groups()
        registers = int((re.search(r"\brd:(\d+)", self.comment) or (0, 0))[1])
        if "ss[a0" in self.comment:
            space = "scratch"
        elif PAYLOAD.search(self.comment):
            space = "payload"
        if "block2d" in kind:
            given = int((re.search(r"\bwr:\d+\+(\d+)", self.comment) or (0, 0))[1])
            size = (registers if verb == "load" else given) * REG
        else:
            size = int(bits) // 8 * int(vector or 1) * (1 if "t" in flags else self.lanes)
        if verb == "load" and registers == 0:
            verb = "prefetch"
        return verb, space, size

    def weights(self):
        """{class: units}"""
        units = max(1.0, self.lanes / 16)
        if self.base == "dpas" or self.base == "dpasw":
            return {"dpas": int(self.name.rpartition("x")[2]) / 8}
        if self.base in ("send", "sendc"):
            return {"send": units}
        if self.base == "sync" or self.base == "nop":
            return {"sync": 1}
        if self.base in FLOW:
            return {"flow": 1}
        return {"vector": units} if self.lanes >= 16 else {"scalar": 1}


class Loop:
    """Instructions [first, last] that a backward jump repeats; children lie inside."""

    def __init__(self, first, last):
        self.first, self.last = first, last
        self.children, self.parent = [], None

    def covers(self, other):
        return self.first <= other.first and other.last <= self.last


class Kernel:
    def __init__(self, name, facts, code):
        self.name = name
        self.simd, self.registers = facts["simd_size"], facts["grf_count"]
        self.spill, self.private, self.slm = facts["spill_size"], facts["private_size"], facts["slm_size"]
        self.arguments = facts["names"]
        self.code, self.labels = code
        self.loops = find_loops(self.code, self.labels)
        follow_pointers(self.code, self.labels, facts)

    def own(self, loop):
        """The instructions of a loop (None: of no loop) without those of loops inside."""
        first, last = (loop.first, loop.last) if loop else (0, len(self.code) - 1)
        inner = [x for x in self.loops if x.parent is loop]
        return [i for k, i in enumerate(self.code[first:last + 1], first)
                if not any(x.first <= k <= x.last for x in inner)]

    def inside(self, loop):
        return [x for x in self.loops if loop.covers(x)]

    def counts(self, loop):
        total = {}
        for i in self.own(loop):
            for c, n in i.weights().items():
                total[c] = total.get(c, 0) + n
        return total

    def bytes_moved(self, loop, verbs=("load",)):
        """{arguments: bytes} that one thread moves in one run of the loop's own instructions."""
        total = {}
        for i in self.own(loop):
            if i.moves and i.moves[0] in verbs and i.moves[1] not in ("slm", "scratch", "payload"):
                total[i.argument] = total.get(i.argument, 0) + i.moves[2]
        return total


# ---- loops ----

def find_loops(code, labels):
    ends = {}
    for k, i in enumerate(code):
        for t in i.targets:
            if labels[t] <= k:
                ends[labels[t]] = max(k, ends.get(labels[t], 0))
    loops = sorted((Loop(a, b) for a, b in ends.items()), key=lambda x: (x.first, -x.last))
    for n, x in enumerate(loops):
        for y in loops[:n]:
            if y.covers(x):
                x.parent = y  # the last that covers it is the innermost
            elif y.last >= x.first:
                raise Broken(f"loops overlap at instructions {x.first} and {y.first}")
        if x.parent:
            x.parent.children.append(x)
    return loops


# ---- which argument a message goes to ----

def dwords(number, sub, region, kind, lanes):
    """The dwords of the register file that an operand covers."""
    size = SIZES.get(kind, 4)
    start = number * REG + sub * size
    stride = re.findall(r"\d+", region or "1")
    steps = [int(s) for s in stride] or [1]
    if len(steps) == 3:  # <V;W,H>: one element when all are 0 but W
        span = lanes * max(steps[0] // max(steps[1], 1), steps[2])
    else:
        span = lanes * max(steps)
    end = start + size * max(1, span)
    return range(start // 4, (end + 3) // 4)


def operands(i):
    """(destination or None, sources) as (register, sub-register, region, type)."""
    rest = re.sub(r"^\s*\([a-z]+\)f\d+\.\d+", "", i.rest)  # the flag that a comparison sets
    words = rest.split()
    found = [[(int(m[1]), int(m[2] or 0), m[3], m[4] or "ud") for m in REGISTER.finditer(w)] for w in words]
    if not words:
        return None, []
    first = found[0][0] if found[0] and not words[0].startswith(("-", "(")) else None
    return first, [o for f in found[1:] for o in f]


def payload_start(code, inline):
    """{instruction number: byte of the arguments that its first dword holds} of the loads of arguments in
    the prologue. The address is the base in r0.0 plus constants; what depends on the thread is no argument."""
    known, starts = {}, {}
    for k, i in enumerate(code[:64]):
        m = PAYLOAD.search(i.comment)
        dst, src = operands(i)
        if i.base == "send":
            if m and known.get(src[0][:2]) is not None:
                starts[k] = inline + known[src[0][:2]] + int(m[1] or "0", 16)
            continue
        if dst is None:
            continue
        number = re.search(r"\s(0x[0-9A-Fa-f]+|\d+):\w+", i.rest)
        if i.base == "and" and src and src[0][:2] == (0, 0):
            known[dst[:2]] = 0
        elif i.base == "add" and src and number and known.get(src[0][:2]) is not None:
            known[dst[:2]] = known[src[0][:2]] + int(number[1], 0)
        else:
            known[dst[:2]] = None
    return starts


def written_dwords(i):
    """Of the registers that a message fills; a transposed load leaves the rest of its last one alone."""
    registers = int((re.search(r"\brd:(\d+)", i.comment) or (0, 0))[1])
    if i.moves and "block2d" not in i.comment and re.search(r"\.d\d+(u32)?x\d+t\b", i.comment):
        return (i.moves[2] + 3) // 4
    return registers * REG // 4


def transfer(state, i, k, starts, pointers):
    """The pointers in the registers after instruction k."""
    dst, src = operands(i)
    if i.base in ("send", "sendc"):
        if i.moves and src:
            lanes = 1 if "t." in i.comment or "block2d" in i.comment else i.lanes
            start = src[0][0] * REG // 4
            i.argument = frozenset().union(*(state.get(d, frozenset()) for d in range(start, start + 2 * lanes)))
        if dst is not None and not i.rest.split()[0].startswith("null"):
            first, n = dst[0] * REG // 4, written_dwords(i)
            for d in range(first, first + n):
                state.pop(d, None)
            if k in starts:
                for at, number in pointers.items():
                    d = (at - starts[k]) // 4
                    if 0 <= d < n:
                        state[first + d] = state[first + d + 1] = frozenset([number])
        return
    if dst is None or i.base == "dpas" or i.base in FLOW:
        return
    lanes = i.lanes
    held = frozenset()
    if i.base in ("mov", "add", "add3", "sel", "csel", "or", "and", "bfn", "mad", "shl"):
        same = i.base == "mov" and len(src) == 1  # lane by lane
        if same and src[0][2] in ("1;1,0", "1") and dst[2] == "1" and SIZES.get(src[0][3]) == SIZES.get(dst[3]):
            to, frm = dwords(*dst, lanes), dwords(*src[0], lanes)
            values = [state.get(d, frozenset()) for d in frm]
            for d, v in zip(to, values):
                put(state, d, v, i)
            return
        for s in src:
            for d in dwords(*s, lanes):
                held |= state.get(d, frozenset())
    for d in dwords(*dst, lanes):
        put(state, d, held, i)


def put(state, d, held, i):
    if i.predicate not in ("", "(W)") and i.base not in ("sel", "csel"):
        held = held | state.get(d, frozenset())
    if held:
        state[d] = held
    else:
        state.pop(d, None)


def follow_pointers(code, labels, facts):
    """Sets Instruction.argument: pointers flow from where the kernel finds its arguments through moves and
    sums to the addresses of messages, along every way through the code."""
    inline, pointers = facts["inline_data_payload_size"], facts["pointers"]
    starts = payload_start(code, inline)
    entry = {}
    for at, number in pointers.items():
        if at < inline:
            entry[REG // 4 + at // 4] = entry[REG // 4 + at // 4 + 1] = frozenset([number])
    heads = sorted({0} | set(labels.values()) | {k + 1 for k, i in enumerate(code) if i.targets})
    heads = [h for h in heads if h < len(code)]
    end_of = dict(zip(heads, heads[1:] + [len(code)]))
    states, work = {0: entry}, [0]
    while work:
        h = work.pop()
        state = dict(states[h])
        for k in range(h, end_of[h]):
            transfer(state, code[k], k, starts, pointers)
        last = code[end_of[h] - 1]
        ways = [labels[t] for t in last.targets]
        if not (last.base == "jmpi" and last.predicate in ("", "(W)")) and not last.ends:
            ways.append(end_of[h])
        for w in ways:
            if w >= len(code):
                continue
            old = states.get(w)
            if old is None:
                states[w] = dict(state)
                work.append(w)
                continue
            changed = False
            for d, v in state.items():
                if not v <= old.get(d, frozenset()):
                    old[d] = old.get(d, frozenset()) | v
                    changed = True
            if changed:
                work.append(w)


# ---- files ----

def read_code(path):
    """(instructions up to the end of the thread, {label: number of the instruction behind it})"""
    code, labels, ended = [], {}, False
    with open(path, encoding="utf-8") as f:
        for line in f:
            if re.match(r"^L\d+:", line):
                labels[line.partition(":")[0]] = len(code)
            elif line.strip() and not ended:
                code.append(Instruction(line))
                ended = code[-1].ends
    return code, labels


def read_facts(path):
    """{kernel: facts} of a .ze_info, which is YAML of a plain kind."""
    kernels, names, kernel, section, entry = {}, {}, None, "", {}

    def keep():
        if section == "payload_arguments" and entry.get("arg_type") == "arg_bypointer":
            kernels[kernel]["pointers"][int(entry["offset"])] = int(entry["arg_index"])
        if section == "args_info" and "name" in entry:
            names.setdefault(kernel, {})[int(entry["index"])] = entry["name"]
        entry.clear()

    with open(path, encoding="utf-8") as f:
        for line in f:
            m = re.match(r"^(\s*)(- )?([\w]+):\s*(.*?)\s*$", line)
            if m is None:
                continue
            depth, key, value = len(m[1]), m[3], m[4].strip("'\"")
            if depth <= 4 or m[2]:
                keep()
            if depth == 2 and m[2] and key == "name":
                kernel, section = value, ""
                kernels.setdefault(kernel, {"simd_size": 0, "grf_count": 0, "spill_size": 0, "private_size": 0,
                                            "slm_size": 0, "inline_data_payload_size": 0, "pointers": {}})
            elif depth == 4 and not m[2]:
                section = key
            elif section == "execution_env" and key in kernels[kernel] and value.isdigit():
                kernels[kernel][key] = int(value)
            elif section in ("payload_arguments", "args_info"):
                entry[key] = value
    keep()
    kernels.pop("Intel_Symbol_Table_Void_Program", None)
    for k, facts in kernels.items():
        facts["names"] = names.get(k, {})
    return kernels


def read_kernel(folder, name, facts):
    """Kernel `name` of a disassembled program; facts: what read_facts says of it."""
    return Kernel(name, facts, read_code(os.path.join(folder, f".text.{name}.asm")))
