#!/bin/sh
# SPDX-License-Identifier: MIT
# commit.sh SOURCE_FOLDER - print the commit the sources are at: $QW_COMMIT if set, else what git says
# ("-dirty" when tracked files differ), else the .commit file of a tarball, else "unknown".
if [ -n "${QW_COMMIT:-}" ]; then
    echo "$QW_COMMIT"
elif [ -e "$1/.git" ] && commit=$(GIT_OPTIONAL_LOCKS=0 git -c safe.directory='*' -C "$1" \
    describe --match= --always --abbrev=12 --dirty 2>/dev/null); then
    echo "$commit"
elif [ -r "$1/.commit" ]; then
    cat "$1/.commit"
else
    echo unknown
fi
