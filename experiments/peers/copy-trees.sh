#!/bin/bash
# Times programs that copy a tree: copy-trees.sh TREE [FS [STATE [ROUNDS [SEEKLESS]]]]
#
# FS is ext4, xfs or btrfs; STATE is warm or cold; SEEKLESS is the program. Needs root, and room for twice the tree in DIR
# (/dev/shm by default). Source and target are on one file system, which is made anew for each run from an image that has the
# tree: creating files where others were just removed takes ext4 up to 12 times as long. Programs that are not installed are left
# out. Prints the seconds of each run, and medians in proportion to cp.
set -euo pipefail
tree=$1 fs=${2:-ext4} state=${3:-warm} rounds=${4:-5} seekless=${5:-seekless}
dir=$(mktemp -d "${DIR:-/dev/shm}/copy-trees.XXXXXX") at=
end() { [ -z "$at" ] || umount "$at"; rm -rf "$dir"; }
trap end EXIT
mounted() { at=$dir/mount; mkdir -p "$at"; mount -o loop "$1" "$at"; }
unmounted() { umount "$at"; at=; }

kib=$(du -sk "$tree" | cut -f1)
truncate -s $((kib * 3 + 1048576))K "$dir/image"
case $fs in xfs | btrfs) force=-f ;; *) force=-F ;; esac
"mkfs.$fs" -q $force "$dir/image"
mounted "$dir/image"
cp -a "$tree" "$at/tree"
unmounted

programs=("cp -a" "$seekless cp -a" "rsync -a" "xcp -r" cpz "tar")
times() { sort -n "$dir/times.$1" | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'; }
for _ in $(seq "$rounds"); do
    for number in "${!programs[@]}"; do
        program=${programs[$number]}
        command -v "${program%% *}" > /dev/null || continue
        cp --sparse=always "$dir/image" "$dir/run"
        mounted "$dir/run"
        [ "$state" = cold ] || find "$at/tree" -type f -print0 | xargs -0 cat > /dev/null
        began=$(date +%s.%N)
        if [ "$program" = tar ]; then
            mkdir "$at/copy"
            tar -C "$at/tree" --acls --xattrs -cf - . | tar -C "$at/copy" --acls --xattrs -xpf -
        else
            $program "$at/tree" "$at/copy" > /dev/null
        fi
        seconds=$(echo "$(date +%s.%N) - $began" | bc)
        echo "$program: $seconds s"
        echo "$seconds" >> "$dir/times.$number"
        unmounted
        rm "$dir/run"
    done
done
for number in "${!programs[@]}"; do
    [ ! -e "$dir/times.$number" ] || echo "${programs[$number]}: median $(times "$number") s," \
        "$(echo "scale=2; $(times "$number") / $(times 0)" | bc) of cp -a"
done
