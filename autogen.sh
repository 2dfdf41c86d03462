#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# autogen.sh - make ./configure from a fresh clone
set -e
cd "$(dirname "$0")"
exec autoreconf --force --install --warnings=all,no-obsolete
