#!/bin/bash
# The first process of a user-mode Linux, whose root is that of the host: real NFS and SMB servers on its loopback, and seekless on both.
# DIR is a directory of the host, with a disk and `bytes`; SEEKLESS is the program.
exec > "$DIR/log" 2>&1
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=$DIR
mount -t proc proc /proc; mount -t sysfs sys /sys
for at in /run /var/lib/nfs; do mount -t tmpfs none "$at"; done
# The host has no modules of this kernel where modprobe looks.
mkdir -p "$DIR/root/lib/modules" "$DIR"/{disk,nfs,cifs,smb}
ln -s "/usr/lib/uml/modules/$(uname -r)" "$DIR/root/lib/modules/"
printf '#!/bin/sh\nexec modprobe -d "%s" "$@"\n' "$DIR/root" > "$DIR/modprobe"; chmod +x "$DIR/modprobe"
echo "$DIR/modprobe" > /proc/sys/kernel/modprobe
for module in nfsd nfsv4 cifs; do "$DIR/modprobe" "$module"; done
ip link set lo up
mount /dev/ubda "$DIR/disk" && mkdir "$DIR"/disk/{nfs,smb} && chmod 777 "$DIR/disk/smb"

mkdir -p /var/lib/nfs/{v4recovery,sm}; touch /var/lib/nfs/{etab,rmtab}
mount -t nfsd nfsd /proc/fs/nfsd
exportfs -o rw,no_root_squash,insecure,fsid=0,no_subtree_check "127.0.0.1:$DIR/disk/nfs"
rpc.nfsd -N 3 -V 4 2; rpc.mountd -N 3
mount -t nfs4 127.0.0.1:/ "$DIR/nfs"

{
  printf '[global]\ninterfaces = lo\nbind interfaces only = yes\nmap to guest = Bad User\nguest account = root\ndisable netbios = yes\n'
  for name in 'private dir' 'lock directory' 'state directory' 'cache directory' 'pid directory' 'ncalrpc dir'; do
    echo "$name = $DIR/smb"
  done
  printf 'log file = %s/smb.log\nload printers = no\n' "$DIR"
  printf '[share]\npath = %s/disk/smb\nguest ok = yes\nread only = no\nforce user = root\n' "$DIR"
} > "$DIR/smb.conf"
smbd -D -s "$DIR/smb.conf"
for _ in 1 2 3 4 5 6 7 8 9 10; do
  mount -t cifs //127.0.0.1/share "$DIR/cifs" -o guest,vers=3.0 && break; sleep 1
done

try() {
  local kind=$1 at=$DIR/$1 kills=0 marks millis before act
  export XDG_STATE_HOME=$DIR/state-$kind
  fail() { echo "$kind: FAILED: $*"; }
  # Each time anew: an SMB server may keep the name of a removed file for a second.
  make() {
    at=$(mktemp -d "$DIR/$kind/d.XXXXXX"); mkdir "$at"/{x,y}; cp "$DIR/bytes" "$at/x/keep"
    for name in 0 1 2 3 4 5 6 7 8 9; do cp "$DIR/bytes" "$at/y/$name"; done
    # An SMB server may change times when a file is closed.
    sync -f "$at"; sleep 1
    act=("$SEEKLESS" dupes --action remove --keep name:keep --unsafe-owner --yes "$at")
  }
  # A server may still do what a killed process asked for.
  settles() { for _ in 1 2 3 4 5 6 7 8; do "$@" && return; sleep 1; done; return 1; }
  has_all() { [ "$(sums | cut -d' ' -f1 | uniq | wc -l)" = 1 ] && [ "$(sums | wc -l)" = 11 ]; }
  undone() { "$SEEKLESS" dupes undo; [ "$(sums)" = "$before" ]; }
  sums() { (cd "$at" && find . -type f | sort | xargs sha1sum); }
  make; before=$(sums)
  "${act[@]}" 2>&1 | grep -q -- --without-leases || fail "the option is not named"
  "${act[@]}" --without-leases || fail "acting"
  [ "$(ls "$at/y")" = "" ] && [ "$(find "$at" -path '*/.seekless-trash-*' -type f | wc -l)" = 10 ] || fail "not all are moved"
  "$SEEKLESS" dupes undo; [ "$(sums)" = "$before" ] || fail "undo"
  for millis in 150 300 450; do
    make
    timeout -s KILL "0.$millis" "${act[@]}" --without-leases; [ $? = 137 ] && kills=$((kills + 1))
    settles has_all || fail "killed after $millis ms: $(sums)"
    settles undone || fail "killed after $millis ms, undone: $(sums)"
  done
  make; : > "$DIR/marks"; rm -f "$DIR/over"
  # Every other file is written to at the same time.
  { number=0
    while [ ! -e "$DIR/over" ]; do
      number=$((number + 1)); name=$at/y/$((number * 2 % 10))
      [ -e "$name" ] && { printf 'mark%s;' "$number" >> "$name"; } 2>/dev/null && echo "mark$number;" >> "$DIR/marks"
      sleep 0.05
    done; } &
  "${act[@]}" --without-leases; "$SEEKLESS" dupes undo; touch "$DIR/over"; wait $!
  find "$at" -type f -exec cat {} + | grep -aoE 'mark[0-9]+;' | sort -u > "$DIR/found"
  [ -z "$(sort -u "$DIR/marks" | comm -23 - "$DIR/found")" ] || fail "what was appended is lost"
  marks=$(wc -l < "$DIR/marks")
  echo "$kind: tried, $kills kills, $marks appended"
}
for kind in nfs cifs; do
  if mountpoint -q "$DIR/$kind"; then try "$kind"; else echo "$kind: skipped: it cannot be mounted"; fi
done
umount "$DIR/nfs" "$DIR/cifs"
echo o > /proc/sysrq-trigger; sleep 5
