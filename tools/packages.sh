#!/bin/sh
# Install the Debian packages $@ that are missing; as root on Debian only, and without starting a service of theirs.
# Elsewhere the tests that need them say so and are skipped.
set -eu
command -v dpkg-query >/dev/null || exit 0
missing=
for package; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || state=
    [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ]; then
    echo "not installed, since only root can:$missing" >&2
    exit 0
fi
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    trap 'rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod 755 $policy
fi
echo "installing by apt:$missing" >&2
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
# One that can't be had, or that this release doesn't know, keeps nobody from the others.
{ apt-get update && apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1 && rm "$log" && exit 0
for package in $missing; do
    apt-get install -y --no-install-recommends "$package" >>"$log" 2>&1 || echo "could not get $package (see $log)" >&2
done
