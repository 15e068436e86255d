#!/bin/sh
# SPDX-License-Identifier: MIT
# embed.sh KERNEL_FOLDER - write C text: every kernel file below the folder as bytes, in one table.
# Only find, sort, od and sed are needed. The order is fixed, so equal kernels give an equal file.
set -eu
LC_ALL=C
export LC_ALL

cd "${1:?usage: embed.sh KERNEL_FOLDER}"
files=$(find . -type f \( -name '*.cl' -o -name '*.clh' -o -name '*.h' \) | sed 's,^\./,,' | sort)

printf '/* Made by cl/embed.sh from the kernel files; not to be edited. */\n'
printf '#include "cl_sources.h"\n'
table=
n=0
while IFS= read -r file; do
    [ -n "$file" ] || continue
    size=$(wc -c <"$file")
    printf '\n/* %s */\nstatic const unsigned char file%d[] = {\n' "$file" "$n"
    od -v -A n -t u1 "$file" | sed 's/[0-9]\{1,\}/&,/g'
    printf '0};\n'
    table="$table    {\"$file\", file$n, $((size))},
"
    n=$((n + 1))
done <<END
$files
END

printf '\nconst struct qw_cl_source qw_cl_sources[] = {\n%s    {0, 0, 0},\n};\n' "$table"
