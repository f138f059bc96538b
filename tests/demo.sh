#!/bin/sh
# A tour with Fashion-MNIST: a private feedd, the same images from WebDataset shards, two consumers of one shared feed,
# four ranks of another, live statistics, a consumer on a GPU, and checks that every epoch was delivered exactly once,
# with the right bytes; and a batch of augmented photographs as a picture. BUILD= says where the programs are, PHOTOGRAPHS=
# where JPEG files are. Exit status 0 only if every check passed and nothing was left behind.
set -eu
LC_ALL=C
export LC_ALL

here=$(dirname "$0")
BUILD=$(realpath "${BUILD:-build}")
feedctl=$BUILD/feedctl
# shellcheck source=tests/instance.sh
. "$here/instance.sh"

images=60000
world_size=4
fast_epochs=100
run_seconds=5
photographs=${PHOTOGRAPHS:-/usr/share/palapeli/collection}
in_picture=40

say() {
    printf '\n== %s\n' "$1"
}

fail() {
    printf 'demo: FAILED: %s\n' "$1" >&2
    exit 1
}

# From here on, everything is cleaned up however the demo ends.
readers=
watcher=
clean_up() {
    status=$?
    trap - EXIT INT TERM HUP
    for reader in $readers $watcher; do
        kill -KILL "$reader" 2>/dev/null || true
    done
    instance_remove
    exit "$status"
}
instance_make
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Of a report of feedctl read: `B batches, S samples, G GB in T s: ...`, in this order.
summary() {
    sed -n 's/^\([0-9]*\) batch[es]*, \([0-9]*\) sample[s]*, \([0-9.]*\) GB in \([0-9.]*\) s.*/\1 \2 \3 \4/p' "$instance/$1"
}

# read_fashion_mnist NAME OPTIONS...: a consumer that leaves its report in $instance/NAME. It replaces the
# shell that calls it, a subshell or one in the background, so that $! names the process to kill.
read_fashion_mnist() {
    name=$1
    shift
    exec "$feedctl" read fashion-mnist --batch-size 256 --shuffle --timeout 20 "$@" \
        >"$instance/$name" 2>"$instance/$name.error"
}

say 'Fashion-MNIST'
data=$BUILD/data/fashion-mnist
"$here/prepare_fashion_mnist.sh" "$data"

# The first images once more, as members of tar archives: 0000.img, 0000.cls, 0001.img, ...
in_shards=2000
shards=$instance/shards
mkdir "$shards" "$shards/members"
tail -c +17 "$data/train-images-idx3-ubyte" | head -c $((784 * in_shards)) |
    split -b 784 -a 4 -d --additional-suffix=.img - "$shards/members/"
tail -c +9 "$data/train-labels-idx1-ubyte" | head -c $in_shards | od -An -v -t u1 -w1 |
    awk -v folder="$shards/members/" '{ file = sprintf("%s%04d.cls", folder, NR - 1); print $1 >file; close(file) }'
for half in 0 1; do
    (cd "$shards/members" && find . -name "$half*" | sort | tar -cf "../shard-$half.tar" --no-recursion -T -)
done

files=$(find -H "$photographs" -maxdepth 1 -type f -iname '*.jpg' 2>/dev/null | wc -l)
[ "$files" -gt 0 ] || fail "$photographs has no JPEG files: install the package palapeli-data, or name another folder \
with PHOTOGRAPHS="

loaders=$(nproc)
[ "$loaders" -le 8 ] || loaders=8
cat >"$instance/feedd.conf" <<CONFIGURATION
[feedd]
socket = $FEEDD_SOCKET
ring_memory = 1G
loaders = $loaders
linger = 0
simulated_gpus = 1

[dataset fashion-mnist]
format = idx
field.image = $data/train-images-idx3-ubyte
field.label = $data/train-labels-idx1-ubyte

[view first]
of = fashion-mnist
samples = ..$in_shards

[dataset shards]
format = tar
path = $shards/shard-*.tar
field.image = bytes @ img
pad.image = 784
field.label = u8 @ cls

[dataset photographs]
format = folder
path = $photographs
extensions = jpg
field.image = bytes @ file
transform.image = random_resized_crop 224, flip 0.5, brightness 0.4, contrast 0.4, saturation 0.4, hue 0.05

# Goes through the photographs again and again, with other random numbers each time.
[mix batch]
source.photographs = 1
epoch_samples = $in_picture
CONFIGURATION
"$BUILD/feedd" --config "$instance/feedd.conf" --check

say "one consumer, $fast_epochs epochs, as fast as it goes"
instance_start
(read_fashion_mnist fast --seed 1 --epochs "$fast_epochs") || fail "the fast consumer: $(cat "$instance/fast.error")"
summary fast | awk '{ printf "\n%d samples in %.1f s: %.0f samples/s, %.2f GB/s\n", $2, $4, $2 / $4, $3 / $4 }'

say 'one consumer, one epoch, every byte compared with the files'
(read_fashion_mnist one --seed 1 --epochs 1 --verify) || fail "the verifying consumer: $(cat "$instance/one.error")"
grep '^verified' "$instance/one" || fail 'nothing was verified'

say "$in_shards of the images from IDX files and from WebDataset shards"
for name in first shards; do
    "$feedctl" read $name --batch-size 100 --shuffle --seed 3 --epochs 3 --digest >"$instance/$name.read"
    grep '^epoch' "$instance/$name.read" >"$instance/$name.epochs"
done
[ "$(wc -l <"$instance/shards.epochs")" -eq 3 ] || fail 'not every epoch of the shards was read'
cmp -s "$instance/first.epochs" "$instance/shards.epochs" || fail 'shards and IDX files differ'
echo 'both deliver the same bytes in the same order:'
tail -n 1 "$instance/shards.epochs"

say "a batch of $in_picture augmented photographs, made of $files"
picture=$BUILD/photographs.png
rm -f "$picture"
"$feedctl" show batch 0..$in_picture --shuffle --seed 3 --sheet "$picture"
[ -s "$picture" ] || fail 'there is no picture'

# On a machine with a GPU and a driver, uses that GPU; elsewhere one that feedd simulates in host memory.
device=host:0
if [ -e /dev/nvidiactl ]; then device=cuda:0; fi
say "one consumer in host memory, one on a GPU ($device), one shared feed, every byte compared"
(read_fashion_mnist host --seed 5 --epochs 1 --share mixed --wait-for 2 --verify --digest) &
readers=$!
(read_fashion_mnist gpu --seed 5 --epochs 1 --share mixed --wait-for 2 --verify --digest --device $device) ||
    fail "the consumer on a GPU: $(cat "$instance/gpu.error")"
wait "$readers" || fail "the consumer beside it: $(cat "$instance/host.error")"
readers=
grep '^verified' "$instance/gpu" || fail 'nothing was verified on the GPU'
grep '^epoch' "$instance/host" >"$instance/host.epochs"
grep '^epoch' "$instance/gpu" | cmp -s - "$instance/host.epochs" || fail 'host and GPU saw different batches'
"$feedctl" status | sed -n '/^UUID/,$p'

# As many epochs as take about run_seconds, when six consumers that compare every byte share the machine.
epochs=$(summary one | awk -v images=$images -v seconds=$run_seconds \
    '{ n = int($2 / $4 * seconds / 3 / images); print (n < 4 ? 4 : (n > 100 ? 100 : n)) }')
say "two consumers of one shared feed, four ranks of another: $epochs epochs each"
started=$(date +%s.%N)
for name in first second; do
    read_fashion_mnist $name --seed 7 --epochs "$epochs" --share both --wait-for 2 --verify --digest &
    readers="$readers $!"
done
rank=0
while [ $rank -lt $world_size ]; do
    read_fashion_mnist rank$rank --seed 11 --epochs "$epochs" --share ranks --rank $rank --world-size $world_size \
        --wait-for $world_size --verify --indices "$instance/indices$rank" &
    readers="$readers $!"
    rank=$((rank + 1))
done
sleep 0.5
"$feedctl" status
"$feedctl" stats 1 &
watcher=$!
failed=
for reader in $readers; do
    wait "$reader" || failed=yes
done
ended=$(date +%s.%N)
kill "$watcher" 2>/dev/null || true
wait "$watcher" 2>/dev/null || true
readers=
watcher=
if [ -n "$failed" ]; then
    cat "$instance"/*.error "$instance/log" >&2
    fail 'a consumer ended with an error'
fi

say 'checks'
for name in first second; do
    grep '^epoch ' "$instance/$name" >"$instance/$name.epochs" || true
    whole=$(grep -c "^epoch [0-9]*: $images samples .* digest [0-9a-f]" "$instance/$name.epochs" || true)
    [ "$whole" -eq "$epochs" ] || fail "the $name consumer saw $whole whole epochs of $epochs"
    grep -q "^verified $((images * epochs)) samples of $epochs whole epochs:" "$instance/$name" ||
        fail "the $name consumer did not verify every sample"
done
cmp -s "$instance/first.epochs" "$instance/second.epochs" || fail 'the sharing consumers saw different batches'
echo "both sharing consumers: $epochs epochs, every sample once, all bytes right, the same digest of each epoch:"
tail -n 1 "$instance/first.epochs"

# One line per sample, "EPOCH SAMPLE", epochs in order in each rank's file: take an epoch from every file, count, repeat.
awk -v images=$images -v epochs="$epochs" -v ranks="$world_size" -v folder="$instance" '
    function wrong(text) { print "epoch " epoch ": " text; exit 1 }
    BEGIN {
        for (epoch = 0; epoch < epochs; epoch++) {
            delivered = 0
            for (rank = 0; rank < ranks; rank++) {
                file = folder "/indices" rank
                while ((rank in ahead) || (getline ahead[rank] < file) > 0) {
                    split(ahead[rank], part, " ")
                    if (part[1] != epoch)
                        break
                    delete ahead[rank]
                    if (part[2] < 0 || part[2] >= images)
                        wrong("sample " part[2] " does not exist")
                    if (part[2] in seen && seen[part[2]] == epoch)
                        wrong("sample " part[2] " came twice")
                    seen[part[2]] = epoch
                    delivered++
                }
            }
            if (delivered != images)
                wrong(delivered " samples where " images " were due")
        }
        for (rank in ahead)
            if (ahead[rank] != "")
                wrong("more came than was asked for")
    }' || fail 'the ranks did not deliver every sample exactly once'
echo "the four ranks together got every one of $images samples exactly once in each of $epochs epochs"

say 'stop'
instance_stop || fail 'feedd did not stop cleanly'
echo 'no process, no socket and nothing in /dev/shm is left'

say 'summary'
for name in first second rank0 rank1 rank2 rank3; do
    summary $name
done | awk -v started="$started" -v ended="$ended" -v loaders="$loaders" '
    { batches += $1; samples += $2; gigabytes += $3 }
    END {
        seconds = ended - started
        printf "6 consumers of 2 feeds with %d loaders each: %d samples in %d batches in %.1f s, ", loaders, samples,
            batches, seconds
        printf "%.0f samples/s, %.2f GB/s, each byte compared\n", samples / seconds, gigabytes / seconds
    }'
summary fast | awk '{ printf "1 consumer that only takes: %.0f samples/s, %.2f GB/s\n", $2 / $4, $3 / $4 }'
echo "a batch of augmented photographs: $picture"
echo 'demo: passed'
