#!/usr/bin/env bash
# What only a machine with a GPU, Nsight Compute and nsys can check: tools/hardware_checks/run.sh RESULTS [PART...]
#
# Parts: probe breakdown captures occupancy known verify pipe_counters products (all by default, in this order). CASES names the programs to verify,
# SECONDS_LEFT how long all of it may take, PYTHON the Python with torch. Each step has its own time limit and log; one
# that fails does not stop the others.
set -u
here=$(cd "$(dirname "$0")" && pwd)
results=$(mkdir -p "$1" && cd "$1" && pwd)
shift
parts=${*:-probe breakdown captures occupancy known verify pipe_counters products}
python=${PYTHON:-python3}
seconds=${SECONDS_LEFT:-460}
launches=${LAUNCHES:-300}
steps=${STEPS:-2}
work=${WORK:-$(mktemp -d)}
export PYTHONPATH="$here/../..${PYTHONPATH:+:$PYTHONPATH}"
export TORCHINDUCTOR_CACHE_DIR="$work/inductor"
cases=${CASES:-resnet50_fp16 encoder_bf16 encoder_fp32 triton_products decoding_fp16 fp8 int8 encoder_tf32 resnet50_fp32
attention elementwise_half encoder_fp16 recurrent mobilenet_fp16 decoding_fp32 fp64 encoder_compiled}
compiled="encoder_compiled triton_products"
began=$(date +%s)
mkdir -p "$work/captures" "$results/logs"

left() { echo $((seconds - $(date +%s) + began)); }

# step NAME LIMIT COMMAND...: run a command with a time limit, its output in a log, and say how it ended.
step() {
    local name=$1 limit=$2 rest start code=0
    shift 2
    rest=$(left)
    if [ "$rest" -lt 10 ]; then
        echo "$name: no time left" | tee -a "$results/steps.txt"
        return 1
    fi
    [ "$rest" -lt "$limit" ] && limit=$rest
    start=$(date +%s)
    timeout -k 5 "$limit" "$@" >"$results/logs/$name.out" 2>"$results/logs/$name.err" || code=$?
    echo "$name: code $code, $(($(date +%s) - start)) s" | tee -a "$results/steps.txt"
    return $code
}

ncu=${NSYSWRAP_NCU:-$(command -v ncu || ls -d /opt/nvidia/nsight-compute/*/ncu /usr/local/cuda*/bin/ncu 2>/dev/null | tail -1)}

probe() {
    step probe_gpu 20 nvidia-smi
    step probe_torch 60 "$python" -c "import sys, torch; print(sys.version, torch.__version__, torch.version.cuda)"
    step probe_ncu 30 "$ncu" --version
    step probe_profiling 60 "$ncu" --query-metrics-collection profiling
    step probe_source 60 "$ncu" --query-metrics-collection source
    step probe_doctor 90 "$python" -m nsyswrap doctor
}

breakdown() {
    step loop_nsys 120 "$python" -m nsyswrap profile -q --force --trace cuda,nvtx -o "$work/loop" -- "$python" "$here/training_loop.py"
    step loop_torch 90 "$python" "$here/training_loop.py" --trace "$work/trace.json"
    cp "$work/loop/report.json" "$results/loop_report.json"
    step breakdown_table 30 "$python" "$here/breakdown_table.py" "$work/loop/report.json" "$work/trace.json" &&
        cp "$results/logs/breakdown_table.out" "$results/breakdown.md"
    xz -T4 -2 -c "$work/trace.json" >"$results/trace.json.xz"
    step loop_redact 30 "$python" -m nsyswrap redact --force "$work/loop/capture.sqlite" -o "$work/loop.sqlite" &&
        xz -T4 -2 -c "$work/loop.sqlite" >"$results/loop.sqlite.xz"
}

capture() {
    local case=$1
    case " $compiled " in
    *" $case "*) # The second run still times kernels of what the first one compiled; the third one does not.
        for run in 1 2; do step "warm${run}_$case" 150 "$python" "$here/programs.py" --case "$case" --steps 1; done ;;
    esac
    step "capture_$case" 120 "$python" -m nsyswrap profile -q --force --trace cuda -o "$work/captures/$case" -- \
        "$python" "$here/programs.py" --case "$case" --steps "$steps"
    cp "$work/captures/$case/report.json" "$results/report_$case.json"
}

captures() {
    local case running=0
    for case in $compiled; do
        case " $(echo $cases) " in *" $case "*) capture "$case" & ;; esac
    done
    for case in $cases; do
        case " $compiled " in *" $case "*) continue ;; esac
        capture "$case" &
        running=$((running + 1))
        [ $((running % 6)) -eq 0 ] && wait -n
    done
    wait
}

# occupancy_of NAME LAUNCHES COMMAND...: what ncu measures for the launches of a program, as CSV.
occupancy_of() {
    local name=$1 count=$2
    shift 2
    step "occupancy_$name" 90 "$ncu" --force-overwrite --export "$work/$name" --target-processes all --clock-control none \
        --section LaunchStats --section Occupancy --kernel-id :::1 --launch-count "$count" "$@"
    "$ncu" --import "$work/$name.ncu-rep" --csv --page raw --print-units base >"$results/occupancy_$name.csv"
}

occupancy() {
    occupancy_of shapes 60 "$python" "$here/shapes.py"
    occupancy_of resnet50 40 "$python" "$here/programs.py" --case resnet50_fp16 --steps 1
    step occupancy_table 30 "$python" "$here/occupancy_table.py" "$results"/occupancy_*.csv
    cp "$results/logs/occupancy_table.out" "$results/occupancy.md"
}

known() {
    local kinds=elementwise,rows
    step known_nsys 120 "$python" -m nsyswrap profile -q --force --trace cuda,nvtx -o "$work/known" -- \
        "$python" "$here/known_work.py" --kinds "$kinds"
    step known_ncu 90 "$ncu" --clock-control none --nvtx --nvtx-include measured/ --csv --page raw --print-units base \
        --metrics dram__bytes_read.sum,dram__bytes_write.sum --log-file "$results/known.csv" \
        "$python" "$here/known_work.py" --kinds "$kinds" --times 1
    step known_table 60 "$python" "$here/known_table.py" "$work/known/capture.sqlite" "$results/logs/known_nsys.out" \
        "$results/known.csv"
    cp "$results/logs/known_table.out" "$results/known.md"
}

# pipes CASE: opcodes beside the tensor pipe's own counters, to see what those count.
pipes() {
    local case=$1 tensor=sm__inst_executed_pipe_tensor
    step "pipes_$case" 75 "$ncu" --force-overwrite --export "$work/pipes_$case" --target-processes all \
        --clock-control none --cache-control none --kernel-id :::1 --launch-count 60 --metrics \
        "sass__inst_executed_per_opcode,$tensor.sum,${tensor}_op_hmma.sum,${tensor}_op_gmma.sum,${tensor}_op_imma.sum,${tensor}_op_hmma_type_hfma2.sum,sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active,gpu__time_duration.sum" \
        "$python" "$here/programs.py" --case "$case" --steps 1
    "$ncu" --import "$work/pipes_$case.ncu-rep" --csv --page raw --print-units base --print-metric-instances details \
        >"$results/pipes_$case.csv" 2>"$results/logs/pipes_$case.import"
}

verify() {
    local case limit
    export TORCHINDUCTOR_COMPILE_THREADS=1 # all is compiled; without helper processes that ncu would wait for
    for case in $cases; do
        limit=$(($(left) < 60 ? $(left) : 60))
        [ "$limit" -lt 20 ] && break
        step "verify_$case" "$limit" "$python" -m nsyswrap verify-tensor-cores --capture "$work/captures/$case/capture.sqlite" \
            --launches "$launches" --timeout $((limit - 15)) --format json --force -o "$results/verify_$case.json" \
            --save-rules "$results/rules_$case.json" --save-counters "$results/counters_$case.csv" -- \
            "$python" "$here/programs.py" --case "$case" --steps "$steps"
    done
    step verify_table 30 "$python" "$here/verify_table.py" "$results"/verify_*.json &&
        cp "$results/logs/verify_table.out" "$results/verify.md"
}

pipe_counters() {
    pipes elementwise_half
    pipes encoder_bf16
}

products() {
    step products 240 "$python" "$here/product_counters.py" --out "$work/products" &&
        cp "$results/logs/products.out" "$results/products.md"
}

for part in $parts; do
    "$part"
done
exit 0
