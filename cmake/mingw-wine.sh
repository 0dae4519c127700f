#!/bin/sh
# mingw-wine.sh <prefix> <wine> <program> [<argument>...]: runs a Windows program under Wine, with a configuration of its
# own in the folder <prefix>, so that nobody's settings are read or changed. There is no window and no sound; what Wine has
# to say about that, and about what it makes at its first start, does not get into the program's output.
prefix=$1
shift
export WINEPREFIX="$prefix" WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml=" DISPLAY=
# Debian's wineserver ends with the last program, and the next test waits for another; this one stays a few seconds.
server=$(dirname "$1")/wineserver64
[ -x "$server" ] && export WINESERVER="$server"
if [ ! -e "$prefix/ready" ]; then
  mkdir -p "$prefix" || exit 1
  # Several tests may start at once.
  (
    flock 9 || exit 1
    [ -e "$prefix/ready" ] || { "$1" wineboot --init 9>&- && touch "$prefix/ready"; }
  ) 9> "$prefix/lock" > "$prefix/wineboot.log" 2>&1 < /dev/null || { cat "$prefix/wineboot.log" >&2; exit 1; }
fi
exec "$@"
