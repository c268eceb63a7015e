#!/bin/sh
# runc or crun, except that a container also sees its host's boot id, as it does on a real machine.
previous= bundle= new=
for word; do
    case $previous in --bundle | -b) bundle=$word ;; esac
    case $word in create | run) new=yes ;; esac
    previous=$word
done
if [ -n "$new" ] && [ -f "$bundle/config.json" ]; then
    /usr/bin/python3 -I - "$bundle/config.json" <<'END'
import json, sys

with open(sys.argv[1]) as file:
    spec = json.load(file)
inside = spec["root"]["path"] + "/proc/sys/kernel/random/boot_id"
script = "for try in 1 2 3 4 5 6 7 8 9; do /usr/bin/mount --bind /run/boot_id $1 && exit; /usr/bin/sleep 0.2; done; exit 1"
hook = {"path": "/usr/bin/sh", "args": ["sh", "-c", script, "sh", inside]}
spec.setdefault("hooks", {}).setdefault("createContainer", []).append(hook)
with open(sys.argv[1], "w") as file:
    json.dump(spec, file)
END
fi
exec "$(PATH=/usr/sbin:/usr/bin command -v "${0##*/}")" "$@"
