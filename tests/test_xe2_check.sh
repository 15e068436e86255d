#!/bin/sh
# SPDX-License-Identifier: MIT
# tools/xe2-check on small kernels of known faults: a checker that passes what is broken is worse than
# none. Nothing is fetched here; without the compiler only the cases that need none are run.
set -u
LC_ALL=C
export LC_ALL
check=${srcdir:-.}/tools/xe2-check
dir=$(mktemp -d "${TMPDIR:-/tmp}/qw-xe2.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
trap 'exit 99' HUP INT TERM
passed=0
failed=0

# expect NAME STATUS PATTERN OPTIONS...: the status, and a line that matches in what is printed.
expect() {
    name=$1
    wanted=$2
    pattern=$3
    shift 3
    sh "$check" "$@" >"$dir/out" 2>&1
    status=$?
    if [ "$status" -eq "$wanted" ] && grep -Eq -e "$pattern" "$dir/out"; then
        passed=$((passed + 1))
        echo "ok $name"
    else
        failed=$((failed + 1))
        echo "FAIL $name: status $status, not $wanted, or nothing like: $pattern"
        sed 's/^/  /' "$dir/out"
    fi
}

the_end() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
    exit
}

cat >"$dir/plain.cl" <<'END'
kernel void plain(global int *a)
{
    a[get_global_id(0)] += 1;
}
END

expect "no file is wrong usage" 2 'no file given'
expect "an unknown option is wrong usage" 2 'unknown option --max-spil ' --max-spil 0 "$dir/plain.cl"
expect "a word for a number is wrong usage" 2 "wants a number, not 'few'" --max-spill few \
    "$dir/plain.cl"
expect "a missing file is wrong usage" 2 'cannot read .*/absent\.cl' "$dir/absent.cl"
cache=${QW_XE2_CACHE:-}
QW_XE2_CACHE=$dir/empty QW_XE2_MIRROR=http://127.0.0.1:9/debian
export QW_XE2_CACHE QW_XE2_MIRROR
expect "without a compiler, offline is a skip" 77 '^xe2-check: skipped: no compiler' --offline \
    "$dir/plain.cl"
expect "without a compiler, a dead mirror is a skip" 77 '^xe2-check: skipped: no compiler' \
    "$dir/plain.cl"
if [ -n "$(find "$dir/empty" -name 'root*' 2>/dev/null)" ]; then
    failed=$((failed + 1))
    echo "FAIL what a dead mirror gave is left in the cache"
fi
mkdir -p "$dir/empty/root/usr/bin"
expect "half a compiler is none" 77 '^xe2-check: skipped: no compiler' --offline "$dir/plain.cl"
if [ -n "$cache" ]; then QW_XE2_CACHE=$cache; else unset QW_XE2_CACHE; fi
if ! sh "$check" --offline --version; then
    echo "SKIP machine code: no offline compiler here (make check-xe2 fetches it)"
    the_end
fi

# From here on compiled. The mirror is still dead: a cached compiler needs none.
expect "a plain kernel passes" 0 '^plain +(16|32) +128 +0 +[1-9][0-9]* +[1-9][0-9]* +0 +0 +0$' \
    --max-spill 0 --max-private 0 "$dir/plain.cl"

cat >"$dir/product.cl" <<'END'
__attribute__((intel_reqd_sub_group_size(16))) kernel void
product(global const ushort *a, global const uint *b, global int *c)
{
    local int both[16];
    const int lane = get_sub_group_local_id();
    const short8 rows = as_short8(intel_sub_group_block_read_us8(a));
    const int8 sum =
        intel_sub_group_i8_i4_matrix_mad_k32(rows, as_int4(intel_sub_group_block_read4(b)), (int8)0);
    both[lane] = sum.s0 + sum.s7;
    barrier(CLK_LOCAL_MEM_FENCE);
    c[lane] = both[15 - lane];
}
END
expect "a product on the matrix unit passes" 0 '^product +16 +128 +1 +[0-9]+ +[0-9]+ +0 +0 +64$' \
    --max-spill 0 --require-simd 16 --require-dpas product "$dir/product.cl"
expect "another width than the one wanted fails" 1 \
    'FAIL product: is compiled for 16 work-items in a thread, not 32' --require-simd 32 \
    "$dir/product.cl"
expect "a pattern without a kernel fails" 1 'FAIL --require-dpas produkt\*: no kernel' \
    --require-dpas 'produkt*' "$dir/product.cl"
expect "a kernel off the matrix unit fails where it is wanted" 1 'FAIL plain: has no dpas' \
    --require-dpas 'pl*' "$dir/plain.cl"
expect "files are counted together, each by itself" 1 '^2 passed, 1 failed$' \
    --require-dpas product --require-dpas absent "$dir/plain.cl" "$dir/product.cl"

# The right operands are (char8, int4): with short8 the compiler says nothing and leaves everything out.
cat >"$dir/trap.cl" <<'END'
__attribute__((intel_reqd_sub_group_size(16))) kernel void
trap(global const ushort *a, global const uint8 *b, global int8 *c)
{
    const short8 rows = as_short8(intel_sub_group_block_read_us8(a));
    c[get_sub_group_local_id()] =
        intel_sub_group_i4_i8_matrix_mad_k32(rows, as_int8(b[get_sub_group_local_id()]), (int8)0);
}
END
expect "a product of the wrong type, compiled to nothing, fails" 1 'FAIL trap: has no dpas' \
    --require-dpas trap "$dir/trap.cl"

cat >"$dir/undeclared.cl" <<'END'
kernel void undeclared(global int *a)
{
    a[0] = intel_sub_group_i8_i3_matrix_mad_k32(a[1], a[2], a[3]);
}
END
expect "a built-in that does not exist fails" 1 'error:.*intel_sub_group_i8_i3_matrix_mad_k32' \
    "$dir/undeclared.cl"

cat >"$dir/undefined.cl" <<'END'
int nobody(int);
int nothing(int);
__attribute__((noinline)) int between(int n)
{
    return nothing(n) + 1;
}
kernel void direct(global int *a)
{
    a[0] = nobody(a[1]);
}
kernel void indirect(global int *a)
{
    a[0] = between(a[1]);
}
kernel void innocent(global int *a)
{
    a[0] = a[1];
}
END
expect "a call of a function that nobody defines fails" 1 \
    'FAIL direct: calls what nobody defines: nobody$' "$dir/undefined.cl"
expect "also from a function of ours" 1 'FAIL indirect: calls what nobody defines: nothing$' \
    "$dir/undefined.cl"
expect "its neighbour passes" 1 '^1 passed, 2 failed$' "$dir/undefined.cl"
expect "such calls can be allowed" 0 '^3 passed, 0 failed$' --allow-undefined "$dir/undefined.cl"

# 150 registers of floats, all alive across a loop: more than 128 registers hold, 256 hold them.
cat >"$dir/spilling.cl" <<'END'
__attribute__((intel_reqd_sub_group_size(16))) kernel void
spilling(global uint *a, int n)
{
    float v[150];
#pragma unroll
    for (int i = 0; i < 150; i++)
        v[i] = as_float(intel_sub_group_block_read(a + i * 16));
    for (int k = 0; k < n; k++) {
        const float x = as_float(a[k]);
#pragma unroll
        for (int i = 0; i < 150; i++)
            v[i] = fma(v[i], x, v[(i + 1) % 150]);
    }
#pragma unroll
    for (int i = 0; i < 150; i++)
        intel_sub_group_block_write(a + i * 16, as_uint(v[i]));
}
END
expect "a kernel that spills fails" 1 'FAIL spilling: spills [1-9][0-9]* bytes' --max-spill 0 \
    "$dir/spilling.cl"
expect "it is reported where no limit is set" 0 '^spilling +16 +128( +[0-9]+){3} +[1-9][0-9]* ' \
    "$dir/spilling.cl"
expect "with 256 registers it does not spill" 0 '^spilling +16 +256( +[0-9]+){3} +0 ' --max-spill 0 \
    -o -cl-intel-256-GRF-per-thread "$dir/spilling.cl"

cat >"$dir/private.cl" <<'END'
kernel void private_array(global int *a, int n)
{
    int v[1024];
    for (int i = 0; i < 1024; i++)
        v[i] = a[i * n];
    for (int i = 0; i < n; i++)
        v[a[i] & 1023] += v[a[i + 1] & 1023];
    a[0] = v[n & 1023];
}
END
expect "an array in memory fails" 1 'FAIL private_array: has [1-9][0-9]* bytes of private memory' \
    --max-private 0 "$dir/private.cl"

echo 'int helper(int n) { return n + 1; }' >"$dir/helper.h"
expect "a file without a kernel fails" 1 'FAIL .*helper.h: compiles, but holds no kernel' \
    "$dir/helper.h"
printf '#include "helper.h"\nkernel void user(global int *a) { a[0] = helper(PLUS + a[1]); }\n' \
    >"$dir/user.cl"
expect "files are put together to a program" 0 '^user ' --program -o -DPLUS=4 "$dir/helper.h" \
    "$dir/user.cl"
expect "errors name the file of a program" 1 'user\.cl:2:.*PLUS' --program "$dir/helper.h" \
    "$dir/user.cl"
expect "an option that the compiler does not know fails" 1 '^0 passed, 1 failed$' \
    -o -cl-intel-no-such-option "$dir/plain.cl"
expect "so does a device" 1 '^0 passed, 1 failed$' -d no-such-device "$dir/plain.cl"
expect "disassembly is kept" 0 '^1 passed' --keep "$dir/kept" "$dir/plain.cl"
if ! grep -q 'send.*EOT' "$dir/kept/1/asm/.text.plain.asm"; then
    failed=$((failed + 1))
    echo "FAIL the kept disassembly does not hold the kernel"
fi
the_end
