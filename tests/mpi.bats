# ct-fdk as a grid of MPI ranks, ct-iterate and ct-project as ranks: bits, files, failures, hosts, launchers.
load helper

setup_file() {
    cd "$BATS_FILE_TMPDIR" || exit 1
    # what an MPI of a container or of root asks for
    # hash: the launcher of Open MPI 4 has its data where a process that is killed may hold a lock
    # quiet: not --quiet, which Open MPI 5 does not know; that one has a word about networks, where ranks of a host use none
    export OMPI_MCA_orte_execute_quiet=1 OMPI_MCA_btl=^tcp
    export PMIX_MCA_gds=hash OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    # the libraries of an MPI keep memory to the end
    export ASAN_OPTIONS=detect_leaks=0
    ct-geom --sod 500 --sdd 1000 --detector 48x40 --pitch 2 --views 60 | ct-phantom -g - -o scan.tif
    ct-fdk scan.tif --volume 40x36x33 -o one.tif
    # long enough to be killed in
    ct-geom --sod 500 --sdd 1000 --detector 64x64 --pitch 2 --views 120 | ct-phantom -g - -o long.tif
}

# ranks N COMMAND...: as N ranks; ends by itself, or is killed
ranks() {
    local n=$1
    shift
    timeout -k 5 60 mpirun --oversubscribe -n "$n" "$@" < /dev/null
}

setup() {
    mkdir -p "$BATS_TEST_TMPDIR/work"
    cd "$BATS_TEST_TMPDIR/work" || exit 1
    set -o pipefail
    command -v mpirun >/dev/null || skip "no mpirun"
    [ -e "$BUILD/lib/voxpipe/voxpipe-mpi.so" ] || skip "built without MPI"
    F=$BATS_FILE_TMPDIR
    fdk=(ct-fdk "$F/scan.tif" --volume 40x36x33)
}

# A trap on EXIT would be in the place of that of bats, which then has not heard of the test.
teardown() {
    local pid=${holder_PID-} # bash unsets it as soon as the process has ended
    [ -n "$pid" ] || return 0
    exec {holder[1]}>&-
    wait "$pid"
}

# clean: no file is left but those named
clean() {
    run ls -A
    [ "$output" = "$*" ] || { echo "left: $output"; return 1; }
}

# close_to A B: the relative L2 difference is below 2e-6
close_to() {
    img-cmp "$1" "$2" > difference || [ $? -eq 1 ]
    awk '/relative L2/ { good = $3 < 2e-6 } END { exit !good }' difference
}

@test "slabs: the file of one process to the bit, by 1, 2, 3, 4, 6 and 8 ranks" {
    for n in 1 2 3 4 6 8; do
        ok ranks $n "${fdk[@]}" -o many.tif
        cmp "$F/one.tif" many.tif
    done
    for n in 2 5; do
        ok ranks $n "${fdk[@]}" --grid ${n}x1 --gather yes -o many.tif
        cmp "$F/one.tif" many.tif
    done
    clean many.tif
}

@test "subsets of the views: agree within rounding, the same bits in every run" {
    for grid in 1x2 2x2 3x2 1x3 2x4; do
        ok ranks $((${grid%x*} * ${grid#*x})) "${fdk[@]}" --grid $grid -o many.tif
        close_to "$F/one.tif" many.tif
        ok ranks $((${grid%x*} * ${grid#*x})) "${fdk[@]}" --grid $grid --gather yes -o again.tif
        cmp many.tif again.tif
    done
    # the grid of slabs changes nothing, only the number of subsets does
    ok ranks 2 "${fdk[@]}" --grid 1x2 -o two.tif
    ok ranks 6 "${fdk[@]}" --grid 3x2 -o many.tif
    cmp two.tif many.tif
}

@test "counts, sinograms, a detector beside the axis, a slab, few views: as one process" {
    ct-phantom -g "$F/scan.tif" --noise 60000 --counts -o counts.tif
    ct-fdk --i0 60000 counts.tif --volume 20x20x18 -o one.tif
    ok ranks 3 ct-fdk --i0 60000 counts.tif --volume 20x20x18 --gather yes -o many.tif
    cmp one.tif many.tif
    ct-geom --sod 500 --sdd 1000 --detector 48x40 --pitch 2 --views 60 --offset-u 12 | ct-phantom -g - -o offset.tif
    ct-fdk offset.tif --volume 20x20x18 -o one.tif
    for gather in yes no; do
        ok ranks 3 ct-fdk offset.tif --volume 20x20x18 --gather $gather -o many.tif
        cmp one.tif many.tif
    done
    ct-fdk "$F/scan.tif" --volume 20x20x18 --slab 3:11 --views 5:50 -o one.tif
    ok ranks 4 ct-fdk "$F/scan.tif" --volume 20x20x18 --slab 3:11 --views 5:50 --gather yes -o many.tif
    cmp one.tif many.tif
    ok ranks 2 ct-fdk "$F/scan.tif" --volume 20x20x18 --slab 3:11 --views 5:50 --raw-out -o many.raw
    ct-fdk "$F/scan.tif" --volume 20x20x18 --slab 3:11 --views 5:50 --raw-out -o one.raw
    cmp one.raw many.raw
}

@test "a file for each slab, that together are the volume" {
    ok ranks 6 "${fdk[@]}" --grid 3x2 --slab-files -o slab.tif
    clean "slab-0.tif
slab-1.tif
slab-2.tif"
    ok ranks 2 "${fdk[@]}" --grid 1x2 -o two.tif
    img-cat slab-?.tif -o all.tif
    ok img-cmp all.tif two.tif
    # each knows where it is
    [[ "$(img-info slab-1.tif)" == *"-5"* ]]
}

@test "what is wrong for all is said once, and nothing is left" {
    fails 1 "nowhere.tif: No such file" ranks 3 ct-fdk nowhere.tif -o many.tif
    [ "$(grep -c "ct-fdk: error" <<<"$stderr")" -eq 1 ]
    fails 2 "unknown option --bad" ranks 3 "${fdk[@]}" --bad -o many.tif
    [ "$(grep -c "ct-fdk: error" <<<"$stderr")" -eq 1 ]
    fails 2 "--grid: expected RxC, with R times C the number of ranks, 3" ranks 3 "${fdk[@]}" --grid 2x2 -o many.tif
    fails 2 "standard input: ranks read their own parts" ranks 2 ct-fdk -o many.tif
    fails 2 "ranks write the volume side by side" ranks 2 "${fdk[@]}" --force
    fails 2 "--compress: ranks write the pages in any order" ranks 2 "${fdk[@]}" --compress deflate -o many.tif
    fails 2 "ranks write a regular file" ranks 2 "${fdk[@]}" -o /dev/full
    fails 2 "40 ranks are more than there is work for" \
        ranks 40 ct-fdk "$F/scan.tif" --volume 9x9x3 --views 0:8 -o many.tif
    fails 3 "no grid of the ranks fits, for example 1x2: rank 0 (" ranks 2 "${fdk[@]}" --memory 1M -o many.tif
    [[ "$stderr" =~ "): one slice at a time needs "[0-9.]+" MiB, the memory limit is "[0-9.]+" KiB" ]]
    fails 3 "--grid 2x1: rank 0 (" ranks 2 "${fdk[@]}" --memory 1M --grid 2x1 -o many.tif
    [[ "$stderr" == *"): one slice at a time needs "* ]]
    fails 2 "--grid 4x1: more slabs than slices" ranks 4 ct-fdk "$F/scan.tif" --volume 9x9x2 --grid 4x1 -o many.tif
    fails 1 "No such file or directory" ranks 2 "${fdk[@]}" -o nowhere/many.tif
    clean
}

@test "what is wrong for one rank ends all of them" {
    head -c 200000 "$F/scan.tif" > cut.tif
    for gather in yes no; do
        fails 1 "cut.tif: page" ranks 3 ct-fdk cut.tif --volume 40x36x33 --gather $gather -o many.tif
        [ "$(grep -c "ct-fdk: error" <<<"$stderr")" -eq 1 ]
    done
    echo old > many.tif
    fails 1 "cut.tif: page" ranks 4 ct-fdk cut.tif --volume 40x36x33 --grid 2x2 --gather yes -o many.tif
    [ "$(cat many.tif)" = old ]
    clean "cut.tif
many.tif"
}

@test "a rank that fails by itself, at its start or in the middle of an agreement, ends all with a word" {
    needs_plain_memory # nothing else is preloaded
    # before MPI, in what ranks say to each other, in the plan (another grid would be other bits), in a message
    for fault in realloc:1 calloc:1 memalign:2 memalign:3 memalign:6 memalign:70 malloc:10 malloc:20; do
        FAULT=$fault:12 FAULT_OURS=1 fails 3 "ct-fdk: error: " ranks 3 sh -c \
            '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != 1 ] || export LD_PRELOAD=$0; exec "$@"' "$BUILD/fault/fault.so" \
            "${fdk[@]}" -o many.tif
        clean
    done
}

@test "a full disk ends all ranks with one message" {
    mkdir small
    unshare -rm mount -t tmpfs none small 2>/dev/null || skip "no file system can be mounted"
    export -f ranks
    for grid in 3x1 1x3; do
        run --separate-stderr unshare -rm bash -c 'mount -t tmpfs -o size=100k none small || exit
            status=0
            ranks 3 "$@" -o small/many.tif || status=$?
            ls -A small
            exit $status' sh "${fdk[@]}" --grid $grid
        [ "$status" -eq 1 ]
        [ -z "$output" ]
        [[ "$stderr" == *"many.tif: No space left on device"* ]]
        [ "$(grep -c "ct-fdk: error" <<<"$stderr")" -eq 1 ]
    done
}

# victims_of LAUNCHER PROGRAM N: sets `victims` to the processes of the ranks, once N of them have started
victims_of() {
    local tried
    victims=()
    for ((tried = 0; tried < 200; tried++)); do
        mapfile -t victims < <(pgrep -P "$1" "$2")
        [ ${#victims[@]} -lt "$3" ] || break
        sleep 0.1
    done
}

@test "a rank that is killed at any moment ends all of them, and leaves nothing" {
    command -v pgrep >/dev/null || skip "no pgrep"
    killed=0
    for i in 1 2 3 4 5 6 7 8 9 10; do
        grid=$([ $((i % 2)) -eq 0 ] && echo 3x1 || echo 1x3)
        mpirun --oversubscribe -n 3 ct-fdk "$F/long.tif" --volume 448x448x448 --grid $grid --gather yes \
            -o many.tif < /dev/null > said 2>&1 3>&- &
        launcher=$!
        sleep "0.$((RANDOM % 10))$((RANDOM % 10))"
        victims_of $launcher ct-fdk 1
        [ ${#victims[@]} -gt 0 ] || { echo "no rank to kill at $i"; return 1; }
        if ! kill -9 "${victims[$((RANDOM % ${#victims[@]}))]}"; then # it has just ended
            wait $launcher
            rm many.tif
            continue
        fi
        killed=$((killed + 1))
        begun=$SECONDS
        status=0
        wait $launcher || status=$?
        [ $((SECONDS - begun)) -le 10 ] || { echo "took $((SECONDS - begun)) s"; return 1; }
        [ "$status" -ne 0 ] || { echo "status 0 at $i"; return 1; }
        if [ -e many.tif ]; then # it was there as a whole before the kill
            ok img-info many.tif
            [[ "$output" == *"448 x 448, 448 pages"* ]]
            rm many.tif
        fi
        clean said || return 1
    done
    [ "$killed" -ge 5 ]
}

@test "the plan of ranks, with a model, and without a launcher" {
    printf '%s\n' '# made up' 'load = 1e9' 'filter = 1e9' 'exchange = 1e9' 'backproject = 1e10' 'reduce = 2e9' 'store = 1e9' \
        'host_ranks = 4' 'memory = 4e9' "# measured $(printf '%01000d' 1) times" > model
    ok ct-fdk "$F/scan.tif" --volume 1024x1024x1024 --plan --ranks 16 --model model
    [[ "$output" == *"16 on 4 hosts"* ]]
    for key in T_load T_filter T_allgather T_bp T_reduce T_store; do grep -q "^$key: " <<<"$output"; done
    # 2^30 voxels by 60 views on 16 ranks of 1e10: the planner's numbers are the formula's
    bp=$(awk '/^T_bp:/ { print $2 }' <<<"$output")
    near "$bp" 0.4027 0.02
    store=$(awk '/^T_store:/ { print $2 }' <<<"$output")
    near "$store" 1.0737 0.01
    grep -q '^grid: *16 slabs x 1 subset' <<<"$output"
    [[ "$output" != *"0 over the projections"* ]] # nothing of the memory here, which does not count
    ok ct-fdk "$F/scan.tif" --volume 1024x1024x1024 --plan --ranks 16 --grid 4x4 --model model
    grep -q '^grid: *4 slabs x 4 subsets' <<<"$output"
    # a slab of 1 GiB at most
    sed -i 's/memory = .*/memory = 1.1e9/' model
    fails 3 "--grid 2x8: a slab takes 2.0 GiB, expected at most 1.0 GiB, the memory of a rank in the model" \
        ct-fdk "$F/scan.tif" --volume 1024x1024x1024 --plan --ranks 16 --grid 2x8 --model model
    echo 'speed = 1' >> model
    fails 2 "model:11: 'speed' is not a key of a model" ct-fdk "$F/scan.tif" --plan --ranks 16 --model model
    fails 2 "model:11: 'speed' is not a key of a model" ct-fdk "$F/scan.tif" --model model # one process, too
    ok ranks 2 "${fdk[@]}" --plan
    [ "$(grep -c '^grid:' <<<"$output")" -eq 1 ]
    fails 2 "--ranks 4 without --plan" "${fdk[@]}" --ranks 4 -o many.tif
    fails 2 "--grid: there is only one process" "${fdk[@]}" --grid 2x1 -o many.tif
}

@test "ranks that cannot work together say so, and do not all write one file" {
    mkdir plugins
    VOXPIPE_PLUGINS=$PWD/plugins fails 3 " of 2, which cannot work together: no voxpipe-mpi.so" \
        ranks 2 "${fdk[@]}" -o many.tif
    printf 'not a library' > plugins/voxpipe-mpi.so
    VOXPIPE_PLUGINS=$PWD/plugins fails 3 "cannot work together" ranks 2 "${fdk[@]}" -o many.tif
    [ ! -e many.tif ]
    # a launcher of another kind: each would be a world of its own
    PMI_SIZE=2 PMI_RANK=0 fails 3 "has started 2 ranks, of which" "${fdk[@]}" -o many.tif
    # alone on purpose, and a batch script of Slurm
    ok ranks 2 sh -c 'ct-fdk "$1" --volume 40x36x33 --ranks 1 -o "alone$OMPI_COMM_WORLD_RANK.tif"' sh "$F/scan.tif"
    cmp alone0.tif "$F/one.tif"
    cmp alone1.tif "$F/one.tif"
    SLURM_NTASKS=2 SLURM_PROCID=0 ok "${fdk[@]}" -o batch.tif
    cmp batch.tif "$F/one.tif"
}

@test "statistics are of all ranks, in one file" {
    ok ranks 4 "${fdk[@]}" --grid 2x2 --gather yes --stats s.json -o many.tif
    for key in '"ranks": 4' '"grid": "2x2"' '"gather": "yes"' '"T_compute": ' '"T_reduce": ' '"T_run_expected": '; do
        grep -qF "$key" s.json
    done
    # half of each view's rows, and some more, go to the other rank of the column
    sent=$(grep -o '"bytes_of_views_sent": [0-9]*' s.json | grep -o '[0-9]*$')
    [ "$sent" -lt $((60 * 48 * 40 * 4)) ]
    [ "$sent" -gt $((60 * 48 * 20 * 4)) ]
}

# network: makes hosts 1 to 3 in namespaces of its own, which end with the process that holds them; and that ends with
# this test, even if it is killed, for nobody else holds the other end of its standard input
network() {
    coproc holder { exec unshare --net --mount sh -c 'mount -t tmpfs none /run && ip link add hosts type bridge && echo made
        exec cat >/dev/null' 3>&- 2>&1; }
    local made i
    read -r made <&"${holder[0]}" || skip "namespaces cannot be made"
    [ "$made" = made ] || skip "networks cannot be made: $made"
    on_network ip addr add 10.98.7.254/24 dev hosts
    on_network ip link set hosts up
    for i in 1 2 3; do
        on_network ip netns add host$i
        on_network ip link add veth$i type veth peer name eth0 netns host$i
        on_network ip link set veth$i master hosts up
        on_network ip netns exec host$i ip addr add 10.98.7.$i/24 dev eth0
        on_network ip netns exec host$i ip link set eth0 up
        on_network ip netns exec host$i ip link set lo up
    done
}

on_network() { nsenter --target "$holder_PID" --net --mount --root --wd="$PWD" "$@"; }

# hosts N COMMAND...: two ranks on each of N hosts
hosts() {
    local n=$1 list=
    shift
    for ((i = 1; i <= n; i++)); do list+=,10.98.7.$i:2; done
    on_network timeout -k 5 60 mpirun --oversubscribe --bind-to none -n $((2 * n)) --host "${list#,}" \
        --mca plm_rsh_agent "$PWD/agent" --mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_if_include 10.98.7.0/24 \
        --mca btl tcp,self --mca btl_tcp_if_include 10.98.7.0/24 -x PATH -x VOXPIPE_DEVICE -x PMIX_MCA_gds "$@" < /dev/null
}

@test "hosts of a test that is killed are gone" {
    command -v ip >/dev/null || skip "no ip"
    command -v unshare >/dev/null || skip "no unshare"
    (
        network
        echo "$holder_PID" > held
        read -rt 100 <&"${holder[0]}"
    ) 3>&- &
    for wait in {1..100}; do
        [ ! -s held ] || break
        kill -0 $! 2>/dev/null || skip "networks cannot be made"
        sleep 0.1
    done
    local holder_PID # nothing for teardown
    holder_PID=$(cat held)
    on_network ip link show veth3
    [ "$(on_network readlink /proc/self/ns/net)" != "$(readlink /proc/self/ns/net)" ]
    kill -9 $!
    for wait in {1..100}; do
        [ -e "/proc/$holder_PID" ] || break
        sleep 0.1
    done
    [ ! -e "/proc/$holder_PID" ]
}

@test "ranks on several hosts give the same, and end together" {
    command -v ip >/dev/null || skip "no ip"
    command -v unshare >/dev/null || skip "no unshare"
    network
    # mpirun's way to a host: ADDRESS COMMAND...
    printf '%s\n' '#!/bin/sh' 'host=host${1##*.}' 'shift' \
        'exec ip netns exec "$host" unshare --uts sh -c '"'"'hostname "$0"; exec sh -c "$*"'"'"' "$host" "$@"' > agent
    chmod +x agent
    hosts 3 "${fdk[@]}" --grid 6x1 --gather yes --stats "$PWD/s.json" -o "$PWD/many.tif"
    cmp "$F/one.tif" many.tif
    grep -q '"hosts": 3' s.json
    hosts 2 "${fdk[@]}" --grid 2x2 --gather yes -o "$PWD/many.tif"
    ranks 4 "${fdk[@]}" --grid 2x2 -o here.tif
    cmp here.tif many.tif
    rm many.tif
    head -c 200000 "$F/scan.tif" > cut.tif
    run hosts 2 ct-fdk "$PWD/cut.tif" --volume 40x36x33 --gather yes -o "$PWD/many.tif"
    [ "$status" -eq 1 ]
    [ ! -e many.tif ]
    [[ "$output" == *"cut.tif: page"* ]]
    [ -z "$(find . -name '*.tmp')" ]
}

@test "a batch script for Slurm runs" {
    for program in munged slurmctld slurmd sbatch srun; do
        command -v $program >/dev/null || skip "no $program"
    done
    [ "$(id -u)" -eq 0 ] || skip "slurmd wants to be root"
    compgen -G '/usr/lib/*/slurm*/mpi_pmix.so' >/dev/null || skip "Slurm without PMIx"
    W=$PWD
    H=$(hostname -s)
    export SLURM_CONF=$W/slurm.conf
    chmod go-w .
    mkdir state spool
    head -c 1024 /dev/urandom > key
    chmod 600 key
    cat > slurm.conf <<END
ClusterName=voxpipe
SlurmctldHost=$H(127.0.0.1)
SlurmctldPort=$((20000 + BASHPID % 10000))
SlurmdPort=$((30000 + BASHPID % 10000))
AuthType=auth/munge
AuthInfo=socket=$W/munge.sock
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$W/state
SlurmdSpoolDir=$W/spool
SlurmctldPidFile=$W/slurmctld.pid
SlurmdPidFile=$W/slurmd.pid
SlurmctldLogFile=$W/slurmctld.log
SlurmdLogFile=$W/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=pmix
ReturnToService=2
NodeName=$H NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
END
    # ends what is started here when this test has ended, or was killed: nobody else holds its standard input
    coproc holder { exec setsid bash -c 'cat >/dev/null
        for name in slurmd slurmctld munge; do [ ! -s "$0/$name.pid" ] || kill "$(cat "$0/$name.pid")"; done' "$W" \
        >/dev/null 2>&1 3>&-; }
    munged --force --key-file="$W/key" --socket="$W/munge.sock" --pid-file="$W/munge.pid" --log-file="$W/munge.log" \
        --seed-file="$W/seed" 3>&- || skip "munged does not start"
    slurmctld -i 3>&- || skip "slurmctld does not start"
    slurmd 3>&- || skip "slurmd does not start"
    for wait in {1..50}; do
        [ "$(timeout 5 sinfo -h -o %t 2>/dev/null)" != idle ] || break
        sleep 0.2
    done
    [ "$(timeout 5 sinfo -h -o %t)" = idle ] || skip "Slurm has no node that is idle: $(tail -n 1 slurmd.log)"
    batch() { timeout -k 5 50 sbatch --wait --ntasks="$(nproc)" --output=out "$ROOT/examples/cluster/ct-fdk.slurm" "$@"; }
    batch "$F/scan.tif" many.tif --volume 40x36x33 || { cat out; return 1; }
    cmp "$F/one.tif" many.tif
    grep -q "^T_run:" out
    head -c 200000 "$F/scan.tif" > cut.tif
    run batch cut.tif cut-volume.tif --volume 40x36x33
    [ "$status" -ne 0 ]
    [ ! -e cut-volume.tif ]
    grep -q "cut.tif: page" out
}

@test "the same as independent jobs through files" {
    command -v make >/dev/null || skip "no make"
    unset MAKEFLAGS MFLAGS MAKELEVEL
    jobs=(make -s -f "$ROOT/examples/cluster/Makefile" SCAN="$F/scan.tif" FLAGS="--volume 40x36x33")
    "${jobs[@]}" VOLUME=slabs.tif SLABS=3 SUBSETS=1
    ok img-cmp "$F/one.tif" slabs.tif
    "${jobs[@]}" VOLUME=both.tif SLABS=2 SUBSETS=3
    close_to "$F/one.tif" both.tif
    [ "$(ls both.tif.parts | wc -l)" -eq 8 ]
    run "${jobs[@]}" SCAN=nowhere.tif VOLUME=none.tif
    [ "$status" -ne 0 ]
    [ ! -e none.tif ]
}

# same FILE FILE: the same values, with another history
same() { img-cmp "$1" "$2" >/dev/null || { echo "$1 and $2 differ"; return 1; }; }

few() { ct-geom --sod 500 --sdd 1000 --detector 40x24 --pitch 5 --views 33 | ct-phantom -g - --noise 1e5 | img-math -q 'max(a, 0)' -o few.tif; }

@test "ct-iterate: every method gives the file of one process to the bit, also with matrices, weights and a mask" {
    few
    for m in sirt os-sart cgls mlem osem fista-tv pdhg-tv; do
        ct-iterate -q --method $m -n 4 few.tif -o one.tif
        ok ranks 3 ct-iterate --method $m -n 4 few.tif -o many.tif
        cmp one.tif many.tif
    done
    # more ranks than slices, the FDK's volume, a renewal of conjugate gradients
    for options in "--volume 40x40x3 --margin 0" "--initial fdk" "-n 17" "--views 3:20 --stop residual:0.1"; do
        # shellcheck disable=SC2086
        ct-iterate -q $options few.tif -o one.tif
        # shellcheck disable=SC2086
        ok ranks 4 ct-iterate -q $options few.tif -o many.tif
        cmp one.tif many.tif
    done
    img-math -q 'x % 3 + 1' few.tif -o weights.tif
    img-cat --pages 0 few.tif | img-math -q 'y == 7' --type u8 -o dead.tif
    ct-geom --sod 500 --sdd 1000 --detector 40x24 --pitch 5 --views 33 --tilt 3 -o tilted.geom
    ct-iterate -q -n 1 -g tilted.geom --volume 40x40x24 few.tif -o one.tif
    img-math -q "(x - 20) ^ 2 + (y - 20) ^ 2 < 300" --type u8 one.tif -o mask.tif
    for m in sirt os-sart cgls fista-tv pdhg-tv; do
        options=(--method $m -n 3 -g tilted.geom --volume 40x40x24 --pixel-weights weights.tif --dead dead.tif --mask mask.tif)
        ct-iterate -q "${options[@]}" few.tif -o one.tif
        ok ranks 3 ct-iterate "${options[@]}" few.tif -o many.tif
        cmp one.tif many.tif
    done
    img-info one.tif >/dev/null
    [ "$(ct-iterate --plan -g tilted.geom few.tif | grep -c ranks)" -eq 0 ]
    fails 2 "--scratch is for one process" ranks 2 ct-iterate --scratch . few.tif -o many.tif
}

@test "ct-iterate: history, preview, statistics and checkpoints of ranks; other ranks go on" {
    few
    for m in cgls fista-tv pdhg-tv; do
        ct-iterate -q --method $m -n 7 --preview one.png --history one.tsv few.tif -o one.tif
        ok ranks 3 ct-iterate --method $m -n 4 --checkpoint state.tif --every 3 --preview many.png --history many.tsv \
            --stats s.json few.tif -o many.tif
        grep -q '"ranks": 3' s.json
        grep -q '"iterations": 4' s.json
        cmp <(head -n 5 one.tsv | cut -f 1,3-) <(cut -f 1,3- many.tsv)
        for n in 1 4; do
            ok ranks $n ct-iterate --method $m -n 7 --resume state.tif --preview many.png few.tif -o many.tif
            same one.tif many.tif
            cmp one.png many.png
        done
        ct-iterate -q --method $m -n 4 --checkpoint state.tif few.tif -o many.tif
        ok ranks 3 ct-iterate --method $m -n 7 --resume state.tif few.tif -o many.tif
        same one.tif many.tif
    done
    rm many.tif
    # a checkpoint that cannot be written is no failure, and another method one of all
    run --separate-stderr ranks 2 ct-iterate --method sirt -n 2 --checkpoint nowhere/state.tif few.tif -o many.tif
    [ "$status" -eq 0 ]
    [ "$(grep -c "no checkpoint after iteration 2" <<<"$stderr")" -eq 1 ]
    fails 2 "expected --method pdhg-tv, got sirt" ranks 3 ct-iterate --method sirt --resume state.tif few.tif -o other.tif
    [ ! -e other.tif ]
}

@test "ct-iterate and ct-project of ranks: what is wrong is said once, and nothing is left" {
    few
    head -c 100000 few.tif >cut.tif
    ct-iterate -q -n 2 few.tif -o volume.tif
    head -c 90000 volume.tif >short.tif
    mkdir left
    for program in "ct-iterate" "ct-project --subtract few.tif"; do
        # shellcheck disable=SC2086
        fails 1 "nowhere.tif: No such file" ranks 3 $program nowhere.tif -o left/many.tif
        # shellcheck disable=SC2086
        fails 2 "standard input: ranks read their own parts" ranks 3 $program -o left/many.tif
        # shellcheck disable=SC2086
        fails 2 "unknown option --bad" ranks 3 $program --bad few.tif -o left/many.tif
        # shellcheck disable=SC2086
        fails 2 "--ranks 3 without --plan" $program --ranks 3 few.tif -o left/many.tif
        [ "$(grep -c "error: " <<<"$stderr")" -eq 1 ]
    done
    fails 1 "cut.tif: page 24: truncated" ranks 3 ct-iterate cut.tif -o left/many.tif
    [ "$(grep -c "error: " <<<"$stderr")" -eq 1 ]
    fails 1 "cut.tif: page 24: truncated" ranks 4 ct-project --subtract cut.tif volume.tif -o left/many.tif
    [ "$(grep -c "error: " <<<"$stderr")" -eq 1 ]
    fails 1 "short.tif: page" ranks 4 ct-project --subtract few.tif short.tif -o left/many.tif
    fails 3 "expected at most" ranks 2 ct-iterate --memory 300K few.tif -o left/many.tif
    fails 1 "/dev/full: No space left on device" ranks 3 ct-iterate --history /dev/full few.tif -o left/many.tif
    [ "$(grep -c "error: " <<<"$stderr")" -eq 1 ]
    fails 1 "/dev/full: No space left on device" ranks 3 ct-project --subtract few.tif volume.tif -o /dev/full
    fails 1 "left/none/many.tif: No such file" ranks 3 ct-iterate few.tif -o left/none/many.tif
    img-math -q 'if(page == 30 && x == 3, nan, a)' few.tif -o nan.tif
    fails 1 "nan.tif: 24 samples are NaN or infinite" ranks 3 ct-iterate nan.tif -o left/many.tif
    [ "$(grep -c "error: " <<<"$stderr")" -eq 1 ]
    [ -z "$(ls -A left)" ]
}

@test "ct-iterate: one rank's devices hold all slabs, another one's take them in turn: the bits of one process" {
    [ -e "$BUILD/emulated/voxpipe-cuda.so" ] || skip "built without CUDA"
    mkdir plugins
    ln -s "$BUILD/emulated/voxpipe-cuda.so" "$BUILD/lib/voxpipe/voxpipe-mpi.so" plugins
    export VOXPIPE_PLUGINS=$PWD/plugins
    printf '0 0 0 8 8 400 0 0.02\n' >rod.txt
    ct-geom --sod 3000 --sdd 3100 --detector 20x540 --pitch 1 --views 40 | ct-phantom -g - --phantom rod.txt -o rod.tif
    options=(-q --volume 16x16x520 --voxel 1 --margin 0 -n 1 --device cuda:0)
    [[ "$(ct-iterate "${options[@]}" --device-memory 3.2M --plan rod.tif)" == *"in turn"* ]]
    ct-iterate "${options[@]}" rod.tif -o one.tif
    ok mpirun --oversubscribe -n 1 ct-iterate "${options[@]}" --device-memory 3.2M rod.tif -o many.tif : \
        -n 1 ct-iterate "${options[@]}" rod.tif -o many.tif </dev/null
    same one.tif many.tif
}

@test "ct-project: views, residuals, noise and sinograms of ranks are those of one process" {
    few
    ct-iterate -q -n 2 few.tif -o volume.tif
    for options in "-g few.tif" "-g few.tif --noise 1e5 --counts" "--subtract few.tif" "-g few.tif --views 3:25" \
        "-g few.tif --layout sinograms" "--subtract few.tif --views 5:6"; do
        # shellcheck disable=SC2086
        ct-project $options volume.tif -o one.tif
        # shellcheck disable=SC2086
        ok ranks 3 ct-project $options volume.tif -o many.tif
        cmp one.tif many.tif
    done
    img-math -q 'if(page == 30 && x == 3, nan, a)' few.tif -o nan.tif
    run --separate-stderr ranks 3 ct-project --subtract nan.tif volume.tif -o many.tif
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"nan.tif: 24 samples are NaN or infinite"* ]]
    ok ranks 3 ct-project --plan -g few.tif volume.tif
    [[ "$output" == *"views of a turn: 0 to 10, 11 to 21, 22 to 32"* ]]
    ok ct-iterate --plan --ranks 4 few.tif
    [[ "$output" == *"slices: "*"0 to 6, 7 to 13, 14 to 20, 21 to 27"* ]]
}

@test "ct-iterate: a rank that is killed at any moment ends all of them; the checkpoint stays" {
    command -v pgrep >/dev/null || skip "no pgrep"
    ct-iterate -q -n 30 --volume 96x96x96 "$F/long.tif" -o one.tif
    killed=0 resumed=0
    for i in 1 2 3 4; do
        mpirun --oversubscribe -n 3 ct-iterate -n 3000 --volume 96x96x96 --checkpoint state.tif --every 1 "$F/long.tif" \
            -o many.tif < /dev/null > said 2>&1 3>&- &
        launcher=$!
        sleep "$((i / 2)).$((RANDOM % 10))$((RANDOM % 10))"
        victims_of $launcher ct-iterate 3
        [ ${#victims[@]} -gt 0 ] || { echo "no rank to kill at $i"; return 1; }
        wait=0
        [ "$i" -gt 2 ] || wait=1200 # the last two have a checkpoint
        for ((; wait < 1200; wait++)); do
            [ ! -e state.tif ] || break
            sleep 0.05
        done
        kill -9 "${victims[$((i % ${#victims[@]}))]}"
        killed=$((killed + 1))
        begun=$SECONDS
        status=0
        wait $launcher || status=$?
        [ $((SECONDS - begun)) -le 30 ] || { echo "took $((SECONDS - begun)) s"; return 1; }
        [ "$status" -ne 0 ] || { echo "status 0 at $i"; return 1; }
        [ ! -e many.tif ]
        [ -z "$(ls -A | grep -vxE 'said|one.tif|state.tif')" ] || { ls -A; return 1; }
        if [ -e state.tif ]; then
            [ "$(img-info --value checkpoint.iteration state.tif)" -lt 30 ] || { rm state.tif; continue; }
            resumed=$((resumed + 1))
            ok ranks 2 ct-iterate -n 30 --volume 96x96x96 --resume state.tif "$F/long.tif" -o rest.tif
            same one.tif rest.tif
            rm rest.tif state.tif
        fi
    done
    [ "$killed" -eq 4 ]
    [ "$resumed" -ge 1 ]
}
