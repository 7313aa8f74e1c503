#!/usr/bin/env bash
# test_nodes.sh PROGRAM: fovea-nodes on this machine as it is, with one node, and with two made of its CPUs. SCRATCH is a
# folder of its own.
name=fovea-nodes program=$1
. "$(dirname "$0")/../tests/support/program.sh"

mapfile -t cpus < <(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0)), sep="\n")')
list() { local IFS=,; echo "$*"; }
quick=(--megabytes 16 --seconds 0.01)

expect 0 "${quick[@]}"
has out '^fovea [0-9.]+, .* with CPUs of this process$' '^linear map, 1 row' '^decoding step' '^  not bound  default .* 1.00$'

mkdir -p one/node0
echo 0 >one/online
list "${cpus[@]}" >one/node0/cpulist
echo 'Node 0 MemTotal:       1048576 kB' >one/node0/meminfo
echo 10 >one/node0/distance
expect 0 "${quick[@]}" --system one
has out ', 1 node with CPUs' '^node 0: CPUs .*, [0-9]+ usable, 1.0 GiB, distances 10$' '^This machine has one node' \
    'cannot leave a CPU that other work keeps busy'
[ "$(grep -c '^  not bound' out)" = 2 ] || fail "one node, and more than one way was measured"

expect 0 "${quick[@]}" --system nowhere
has out '^The system does not describe its nodes' '^This machine has one node'

[ ${#cpus[@]} -gt 1 ] || exit 0 # of one CPU there are no two nodes
mkdir -p two/node0 two/node1
echo 0-1 >two/online
echo "${cpus[0]}" >two/node0/cpulist
list "${cpus[@]:1}" >two/node1/cpulist
expect 0 "${quick[@]}" --system two
has out ', 2 nodes with CPUs' '^  memory of +by node 0 +by node 1' '^  node 1 +[0-9.]+ +[0-9.]+$' '^  bound +copies ' \
    '^  bound +spread ' '^  not bound  one node '
[ "$(grep -cE '^  (not )?bound +' out)" = 11 ] || fail "not 6 ways of the map and 5 of decoding"
