#!/bin/sh
# The first process of a host: makes the host's disk its root and leaves it to tini. Services are started from outside.
# $1 the host's folder, $2 its name, $3 the folder that all hosts of the fleet share
set -eu
dir=$1 name=$2 shared=$3
mount --make-rprivate /
mount -t overlay "$name" -o "lowerdir=/,upperdir=$dir/disk,workdir=$dir/work" "$dir/root"
cd "$dir/root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /sys/fs/cgroup sys/fs/cgroup
mount --rbind /dev dev
mount -t devpts -o newinstance,gid=5,mode=620,ptmxmode=666 devpts dev/pts
mount -t tmpfs tmpfs dev/shm
mount -t tmpfs -o mode=755 tmpfs run
mkdir run/sshd run/lock run/proc
find tmp -mindepth 1 -delete # as Debian does
# What engines of ordinary accounts need: a proc with nothing mounted over it, a tun device as udev makes it, and
# cgroups of one kind.
mount -t proc proc run/proc
[ ! -e dev/net/tun ] || { mknod -m 666 run/tun c 10 200 && mount --bind run/tun dev/net/tun; }
[ ! -d sys/fs/cgroup/unified ] || umount sys/fs/cgroup/unified
cp "$dir/boot_id" run/boot_id
mount --bind run/boot_id proc/sys/kernel/random/boot_id
mount --bind "$dir/docker" var/lib/docker
mkdir -p "$dir/podman" var/lib/podman
chmod 1777 "$dir/podman"
mount --bind "$dir/podman" var/lib/podman
mount --bind "$shared" srv/shared
hostname "$name"
pivot_root . mnt
umount -l /mnt
cd /
exec /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin /usr/bin/tini -- sleep infinity
